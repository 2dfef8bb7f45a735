/* Reads the size of the terminal, for the progress bar and for images. */
#include "ui/terminal.h"

#include <stdlib.h>
#include <sys/ioctl.h>

int terminal_columns(int fd)
{
    struct winsize size;
    if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    const char *columns = getenv("COLUMNS");
    const int n = columns ? atoi(columns) : 0;
    return n > 0 && n < 10000 ? n : 80;
}

int terminal_pixels(int fd)
{
    struct winsize size;
    if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_xpixel > 0)
        return size.ws_xpixel;
    return 8 * terminal_columns(fd);
}
