/* Text wrapped to the width of the terminal. */
#ifndef ZN_CLI_WRAP_H
#define ZN_CLI_WRAP_H

/* Prints text and a newline on stdout, wrapped to the width of the terminal (80 columns without one). Lines break
 * between words, but not inside brackets. The first line begins at `column`, where the caller stopped. The others are
 * indented. */
void say_wrapped(int column, int indent, const char *text);

/* Prints "  left  text", with the text in its own column. */
void say_entry(int width, const char *left, const char *text);

#endif
