/* Sixels: six rows of pixels at a time, with one pass over this band for each of its colours. The palette is a fixed
 * cube of 6x6x6 colours; Floyd-Steinberg error diffusion hides the steps. */
#include "ui/report.h"
#include "ui/show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEVELS = 6, COLOURS = LEVELS * LEVELS * LEVELS };

/* Palette index of each pixel. */
static uint8_t *quantise(const zn_image *image)
{
    const int w = image->width, h = image->height;
    uint8_t *index = must_alloc(NULL, (size_t)w * (size_t)h);
    const size_t row = (size_t)(w + 2) * 3;
    int *error = must_alloc(NULL, 2 * row * sizeof *error); /* errors of this row and the next, in sixteenths */
    memset(error, 0, 2 * row * sizeof *error);
    const uint8_t *pixel = image->pixels;
    for (int y = 0; y < h; y++) {
        int *here = error + (y & 1 ? row : 0), *below = error + (y & 1 ? 0 : row);
        memset(below, 0, row * sizeof *below);
        for (int x = 0; x < w; x++) {
            int colour = 0;
            for (int c = 0; c < 3; c++) {
                const size_t i = (size_t)(x + 1) * 3 + (size_t)c;
                int v = pixel[((size_t)y * (size_t)w + (size_t)x) * 3 + (size_t)c] + here[i] / 16;
                v = v < 0 ? 0 : v > 255 ? 255 : v;
                const int level = (v * (LEVELS - 1) + 127) / 255, e = v - level * 255 / (LEVELS - 1);
                here[i + 3] += 7 * e;
                below[i - 3] += 3 * e;
                below[i] += 5 * e;
                below[i + 3] += e;
                colour = colour * LEVELS + level;
            }
            index[(size_t)y * (size_t)w + (size_t)x] = (uint8_t)colour;
        }
    }
    free(error);
    return index;
}

static void write_run(const show_sink *sink, int bits, int count)
{
    char text[32];
    const char c = (char)(63 + bits);
    if (count > 3) {
        sink->write(text, (size_t)snprintf(text, sizeof text, "!%d%c", count, c));
        return;
    }
    for (int i = 0; i < count; i++)
        sink->write(&c, 1);
}

/* Writes one colour of one band: one character per column, whose bits are the rows with this colour. */
static void write_colour(const show_sink *sink, const uint8_t *band, int width, int rows, int colour)
{
    int last = -1, count = 0;
    for (int x = 0; x < width; x++) {
        int bits = 0;
        for (int r = 0; r < rows; r++)
            bits |= (band[(size_t)r * (size_t)width + (size_t)x] == colour) << r;
        if (bits != last && count) {
            write_run(sink, last, count);
            count = 0;
        }
        last = bits;
        count++;
    }
    if (last > 0)
        write_run(sink, last, count);
}

void show_sixel(const show_sink *sink, const zn_image *image)
{
    char text[64];
    const int w = image->width, h = image->height;
    uint8_t *index = quantise(image);
    sink->write(text, (size_t)snprintf(text, sizeof text, "\033P0;1;0q\"1;1;%d;%d", w, h));
    for (int i = 0; i < COLOURS; i++)
        sink->write(text,
                    (size_t)snprintf(text, sizeof text, "#%d;2;%d;%d;%d", i, i / 36 * 20, i / 6 % 6 * 20, i % 6 * 20));
    for (int y = 0; y < h; y += 6) {
        const uint8_t *band = index + (size_t)y * (size_t)w;
        const int rows = h - y < 6 ? h - y : 6;
        char used[COLOURS] = { 0 };
        for (size_t i = 0; i < (size_t)rows * (size_t)w; i++)
            used[band[i]] = 1;
        for (int i = 0; i < COLOURS; i++) {
            if (!used[i])
                continue;
            sink->write(text, (size_t)snprintf(text, sizeof text, "#%d", i));
            write_colour(sink, band, w, rows, i);
            sink->write("$", 1);
        }
        sink->write("-", 1);
    }
    sink->write("\033\\\n", 3);
    free(index);
}
