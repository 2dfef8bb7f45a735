/* makeimage OUT WIDTH HEIGHT [SEED [BITS [grey]]]: writes an image with smooth colours, edges and some texture, or with
 * the same in grey. The format follows the name. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <zenith/zenith.h>

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    const int width = atoi(argv[2]), height = atoi(argv[3]);
    const int bits = argc > 5 ? atoi(argv[5]) : 8;
    uint32_t state = argc > 4 ? (uint32_t)atoi(argv[4]) : 1;
    zn_image *image = NULL;
    if (zn_image_new(width, height, bits, &image) != ZN_OK) {
        fprintf(stderr, "%s\n", zn_error_text());
        return 1;
    }
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            for (int c = 0; c < 3; c++) {
                state = state * 1664525u + 1013904223u;
                int v = c == 0 ? x * 255 / width : c == 1 ? y * 255 / height : ((x / 16 + y / 16) % 2) * 160;
                v = (v * 7 + (int)(state >> 24)) / 8;
                const size_t i = ((size_t)y * (size_t)width + (size_t)x) * 3 + (size_t)c;
                if (bits == 16)
                    ((uint16_t *)image->pixels)[i] = (uint16_t)(v * 257);
                else
                    ((uint8_t *)image->pixels)[i] = (uint8_t)v;
            }
    if (argc > 6)
        zn_image_make_grey(image);
    const zn_status status = zn_image_write(argv[1], image, NULL);
    if (status != ZN_OK)
        fprintf(stderr, "%s\n", zn_error_text());
    zn_image_free(image);
    return status != ZN_OK;
}
