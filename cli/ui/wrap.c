/* Wraps text to the width of the terminal. */
#include "ui/wrap.h"

#include "ui/report.h"
#include "ui/terminal.h"

#include <string.h>
#include <unistd.h>

enum { LEAST = 20 }; /* minimum number of columns for text */

static int is_blank(char c) { return c == ' ' || c == '\n'; }

/* The length of the next word. Text in brackets counts as one word. */
static int word_length(const char *text)
{
    int n = 0, depth = 0;
    for (; text[n] && (depth > 0 || !is_blank(text[n])); n++)
        depth += (text[n] == '[') - (text[n] == ']');
    return n;
}

void say_wrapped(int column, int indent, const char *text)
{
    const int columns = terminal_columns(STDOUT_FILENO);
    const int width = columns < indent + LEAST ? indent + LEAST : columns;
    int at = column, fresh = 1; /* no word on this line yet */
    while (*text) {
        const int n = word_length(text);
        if (!fresh && at + 1 + n > width) {
            say("\n%*s", indent, "");
            at = indent;
            fresh = 1;
        }
        say("%s%.*s", fresh ? "" : " ", n, text);
        at += n + !fresh;
        fresh = 0;
        text += n;
        while (is_blank(*text))
            text++;
    }
    say("\n");
}

void say_entry(int width, const char *left, const char *text)
{
    const int used = (int)strlen(left), column = 2 + (used > width ? used : width) + 1;
    say("  %-*s ", width, left);
    say_wrapped(column, 2 + width + 1, text);
}
