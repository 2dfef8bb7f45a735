/* Shows images in the terminal: the kitty graphics protocol, iTerm2 inline images, sixels, or half blocks in 24-bit
 * colour. The protocol is detected from the environment; ZENITH_SHOW=kitty|iterm|sixel|blocks overrides it. */
#include "ui/show.h"

#include "ui/report.h"
#include "ui/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum protocol { KITTY, ITERM, SIXEL, BLOCKS } protocol;

static void to_stdout(const char *text, size_t size) { say_bytes(text, size); }
static void to_stderr(const char *text, size_t size) { fwrite(text, 1, size, stderr); }

static void put(const show_sink *sink, const char *text) { sink->write(text, strlen(text)); }

static const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

static protocol guess(void)
{
    static const char *const names[] = { "kitty", "iterm", "sixel", "blocks" };
    const char *forced = environment("ZENITH_SHOW"), *term = environment("TERM"),
               *program = environment("TERM_PROGRAM");
    for (int i = 0; i < 4; i++)
        if (!strcmp(forced, names[i]))
            return (protocol)i;
    if (!strncmp(term, "screen", 6) || !strncmp(term, "tmux", 4))
        return BLOCKS; /* the multiplexer would drop the image */
    if (*environment("KITTY_WINDOW_ID") || strstr(term, "kitty") || !strcmp(program, "ghostty"))
        return KITTY;
    if (!strcmp(program, "iTerm.app") || !strcmp(program, "WezTerm") || !strcmp(program, "mintty"))
        return ITERM;
    if (strstr(term, "sixel") || !strncmp(term, "mlterm", 6) || !strncmp(term, "foot", 4))
        return SIXEL;
    return BLOCKS;
}

/* One sample as 8 bits. */
static int sample(const zn_image *image, int x, int y, int c)
{
    const size_t i = 3 * ((size_t)y * (size_t)image->width + (size_t)x) + (size_t)c;
    return image->bits == 16 ? (((const uint16_t *)image->pixels)[i] + 128) / 257 : ((const uint8_t *)image->pixels)[i];
}

/* 8-bit copy at most `widest` pixels wide. Each pixel is the mean of those that it covers. */
static zn_image *shrink(const zn_image *image, int widest)
{
    const int width = image->width < widest ? image->width : widest;
    const double ratio = (double)image->width / width;
    int height = (int)(image->height / ratio + 0.5);
    height = height < 1 ? 1 : height > image->height ? image->height : height;
    zn_image *small = NULL;
    if (zn_image_new(width, height, 8, &small) != ZN_OK)
        return NULL;
    uint8_t *out = small->pixels;
    for (int y = 0; y < height; y++) {
        const int top = (int)((int64_t)y * image->height / height);
        const int bottom = (int)(((int64_t)y + 1) * image->height / height);
        for (int x = 0; x < width; x++) {
            const int left = (int)((int64_t)x * image->width / width);
            const int right = (int)(((int64_t)x + 1) * image->width / width);
            const int64_t area = (int64_t)(right - left) * (bottom - top);
            for (int c = 0; c < 3; c++) {
                int64_t sum = 0;
                for (int v = top; v < bottom; v++)
                    for (int u = left; u < right; u++)
                        sum += sample(image, u, v, c);
                *out++ = (uint8_t)((sum + area / 2) / area);
            }
        }
    }
    return small;
}

static char *base64(const unsigned char *bytes, size_t size, size_t *length)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = must_alloc(NULL, (size + 2) / 3 * 4), *out = text;
    for (size_t i = 0; i < size; i += 3) {
        const unsigned b = i + 1 < size ? bytes[i + 1] : 0, c = i + 2 < size ? bytes[i + 2] : 0;
        const unsigned v = (unsigned)bytes[i] << 16 | b << 8 | c;
        *out++ = digits[v >> 18];
        *out++ = digits[v >> 12 & 63];
        *out++ = i + 1 < size ? digits[v >> 6 & 63] : '=';
        *out++ = i + 2 < size ? digits[v & 63] : '=';
    }
    *length = (size_t)(out - text);
    return text;
}

/* The kitty protocol takes at most 4096 characters at a time; m=1 means that more follow. */
static void show_kitty(const show_sink *sink, const char *text, size_t length)
{
    enum { CHUNK = 4096 };
    for (size_t at = 0; at < length; at += CHUNK) {
        const size_t n = length - at < CHUNK ? length - at : CHUNK;
        char head[64];
        snprintf(head, sizeof head, "\033_G%sm=%d;", at ? "" : "a=T,f=100,q=2,", at + n < length);
        put(sink, head);
        sink->write(text + at, n);
        put(sink, "\033\\");
    }
    put(sink, "\n");
}

static void show_iterm(const show_sink *sink, const zn_image *image, const char *text, size_t length, size_t bytes)
{
    char head[128];
    snprintf(head, sizeof head, "\033]1337;File=inline=1;size=%zu;width=%dpx;preserveAspectRatio=1:", bytes,
             image->width);
    put(sink, head);
    sink->write(text, length);
    put(sink, "\a\n");
}

/* An upper half block shows two pixels: its foreground colour is the upper one, its background colour the lower one. */
static void show_blocks(const show_sink *sink, const zn_image *image)
{
    for (int y = 0; y < image->height; y += 2) {
        for (int x = 0; x < image->width; x++) {
            char cell[96];
            int n = snprintf(cell, sizeof cell, "\033[38;2;%d;%d;%d", sample(image, x, y, 0), sample(image, x, y, 1),
                             sample(image, x, y, 2));
            if (y + 1 < image->height)
                n += snprintf(cell + n, sizeof cell - (size_t)n, ";48;2;%d;%d;%d", sample(image, x, y + 1, 0),
                              sample(image, x, y + 1, 1), sample(image, x, y + 1, 2));
            n += snprintf(cell + n, sizeof cell - (size_t)n, "m\u2580");
            sink->write(cell, (size_t)n);
        }
        put(sink, "\033[0m\n");
    }
}

static int show_png(const show_sink *sink, protocol how, const zn_image *image)
{
    const zn_image_write_options writing = { .threads = 1 };
    void *png = NULL;
    size_t size = 0, length = 0;
    if (zn_image_write_memory("png", image, &writing, &png, &size) != ZN_OK)
        return 0;
    char *text = base64(png, size, &length);
    if (how == KITTY)
        show_kitty(sink, text, length);
    else
        show_iterm(sink, image, text, length, size);
    free(text);
    zn_memory_free(png);
    return 1;
}

void show_image(const options *o, const zn_image *image)
{
    const show_sink sink = { o->json ? to_stderr : to_stdout };
    const int fd = o->json ? STDERR_FILENO : STDOUT_FILENO;
    const protocol how = guess();
    zn_image *small = shrink(image, how == BLOCKS ? terminal_columns(fd) : terminal_pixels(fd));
    int shown = small != NULL;
    if (shown && how == BLOCKS)
        show_blocks(&sink, small);
    else if (shown && how == SIXEL)
        show_sixel(&sink, small);
    else if (shown)
        shown = show_png(&sink, how, small);
    if (!shown)
        note(o, "cannot show the image: %s", zn_error_text());
    zn_image_free(small);
}

void show_latent(const options *o, const zn_latent *z)
{
    zn_image *image = NULL;
    if (zn_image_new(z->width, z->height, 8, &image) != ZN_OK) {
        note(o, "cannot show the latent: %s", zn_error_text());
        return;
    }
    uint8_t *out = image->pixels;
    for (int64_t i = 0; i < (int64_t)z->width * z->height; i++)
        for (int c = 0; c < 3; c++) {
            const float v = z->data[i * z->channels + c % z->channels] / 6 + 0.5f;
            *out++ = (uint8_t)(!(v > 0) ? 0 : v > 1 ? 255 : v * 255 + 0.5f);
        }
    show_image(o, image);
    zn_image_free(image);
}
