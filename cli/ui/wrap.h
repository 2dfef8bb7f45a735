/* Text wrapped to the width of the terminal. */
#ifndef ZN_CLI_WRAP_H
#define ZN_CLI_WRAP_H

/* Prints text as lines that fit the terminal on stdout (80 columns without one), broken between words but not inside
 * brackets, and a newline. The first line begins at `column`, where the caller stopped; the others are indented. */
void say_wrapped(int column, int indent, const char *text);

/* "  left  text", with the text in a column of its own. */
void say_entry(int width, const char *left, const char *text);

#endif
