/* Generates the OPTIONS section of the manual page from the table of options. */
#include "options/generate.h"

#include "commands.h"
#include "ui/report.h"

#include <ctype.h>
#include <string.h>

/* Prints plain text as roff: keeps hyphens as typed, and lets no line look like a request. */
static void say_roff(const char *text)
{
    if (*text == '.')
        say("\\&");
    for (; *text; text++) {
        if (*text == '-')
            say("\\-");
        else if (*text == '\\')
            say("\\e");
        else
            say("%c", *text);
    }
}

static void say_heading(const option *t)
{
    say(".TP\n.BR ");
    if (t->letter)
        say("\\-%c \", \" ", t->letter);
    say("\\-\\-");
    say_roff(t->name);
    if (t->value)
        say("%s\\fI%s\\fR", value_is_optional(t) ? "" : " \" \" ", t->value);
    say("\n");
}

/* Prints "encode, decode:" in bold; nothing for an option of all commands. */
static void say_commands(unsigned commands)
{
    if (commands == CMD_ALL)
        return;
    const char *before = ".BR ";
    for (int i = 0; i < command_count; i++)
        if (commands & command_table[i].bit) {
            say("%s%s", before, command_table[i].name);
            before = " \", \" ";
        }
    say(" :\n");
}

/* Rows of one name that all have a value, or none, are one option. */
static int same_option(const option *a, const option *b) { return !strcmp(a->name, b->name) && !a->value == !b->value; }

static int is_first_row(int index)
{
    for (int i = 0; i < index; i++)
        if (same_option(&option_table[i], &option_table[index]))
            return 0;
    return 1;
}

/* An option with several rows in the table gets a line for each. */
static void say_option(int first)
{
    say_heading(&option_table[first]);
    for (int i = first; i < option_count; i++) {
        const option *t = &option_table[i];
        if (!same_option(t, &option_table[first]))
            continue;
        if (i > first)
            say(".br\n");
        say_commands(t->commands);
        if (t->commands == CMD_ALL) {
            say("%c", toupper((unsigned char)t->help[0]));
            say_roff(t->help + 1);
        } else {
            say_roff(t->help);
        }
        say(".\n");
    }
}

void print_manual_options(void)
{
    say(".SH OPTIONS\n"
        "Each command takes the options that name it. A value in parentheses is the default.\n");
    for (int i = 0; i < option_count; i++)
        if (is_first_row(i))
            say_option(i);
}
