/* tinymodel FOLDER: writes a model for `zenith generate` with small random networks, in the layout of diffusers. */
#include "tiny.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    if (argc != 2) {
        fputs("usage: tinymodel FOLDER\n", stderr);
        return 2;
    }
    tiny_model(argv[1]);
    return 0;
}
