/* The size of the terminal. */
#ifndef ZN_CLI_TERMINAL_H
#define ZN_CLI_TERMINAL_H

int terminal_columns(int fd); /* columns of the terminal fd; $COLUMNS or 80 if fd is not a terminal */
int terminal_pixels(int fd);  /* width in pixels; 8 per column if the terminal does not report it */

#endif
