/* The size of the terminal. */
#ifndef ZN_CLI_TERMINAL_H
#define ZN_CLI_TERMINAL_H

int terminal_columns(int fd); /* of the terminal that fd is; $COLUMNS or 80 if it is not one */
int terminal_pixels(int fd);  /* its width in pixels, or 8 for each column where it does not tell */

#endif
