/* Formats that are only read: BMP made by hand, TIFF and GIF made with their libraries, HEIC and AVIF with heif-enc
 * where it is installed. Each is read exactly or closely, survives cuts and damage, and is refused by name in a build
 * without its library. */
#include "image_make.h"

#include "../skip.h"

#include <unistd.h>

#ifdef TEST_TIFF
#include <tiffio.h>
#endif
#ifdef TEST_GIF
#include <gif_lib.h>
#endif

enum { W = 13, H = 6 };

static char path[64];

/* ---- shared ---- */

#if defined TEST_TIFF || defined TEST_GIF || defined TEST_HEIF
static blob slurp(const char *name)
{
    blob b = { 0 };
    uint8_t buffer[4096];
    FILE *f = fopen(name, "rb");
    assert_non_null(f);
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, f)) > 0;)
        blob_add(&b, buffer, n);
    fclose(f);
    return b;
}
#endif

/* Cut at every byte and damaged at random: an error or an image, and nothing read beyond the end. */
static void survives(const blob *b)
{
    uint32_t s = 99;
    for (size_t i = 0; i < b->size + 500; i++) {
        const size_t size = i < b->size ? i : b->size;
        uint8_t *copy = malloc(size ? size : 1);
        memcpy(copy, b->data, size);
        for (int k = 0; i >= b->size && k <= (int)i % 3; k++) {
            s = s * 1664525u + 1013904223u;
            copy[(s >> 8) % size] ^= (uint8_t)(1 << (s >> 5) % 8);
        }
        zn_image *im = NULL;
        const zn_status status =
            zn_image_read_memory(copy, size, &(zn_image_read_options){ .max_pixels = 1 << 16 }, &im);
        assert_true((status == ZN_OK) == (im != NULL));
        assert_true(status == ZN_OK || status == ZN_EFORMAT || status == ZN_EUNSUPPORTED || status == ZN_ELIMIT);
        zn_image_free(im);
        free(copy);
    }
}

static void is_pattern(const zn_image *im, int levels)
{
    assert_true(im->width == W && im->height == H);
    for (int i = 0; i < W * H * 3; i++) {
        const int x = i / 3 % W, y = i / 3 / W, wanted = pattern(x, y, i % 3);
        assert_in_range(at(im, x, y, i % 3) / (im->bits == 16 ? 257 : 1) - wanted + levels, 0, 2 * levels);
    }
}

/* ---- BMP ---- */

static void little(blob *b, uint32_t v, int bytes)
{
    const uint8_t out[4] = { (uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24) };
    blob_add(b, out, (size_t)bytes);
}

typedef struct bmp_spec {
    int head, bits, compression, height, colours;
    uint32_t mask[4];
    int offset; /* of the pixels, if they are not where they should be */
} bmp_spec;

static uint32_t masked(uint32_t value, uint32_t mask)
{
    const int shift = __builtin_ctz(mask);
    return value * (mask >> shift) / 255 << shift;
}

static blob make_bmp(const bmp_spec *s)
{
    blob b = { 0 };
    const int palette = s->colours * (s->head == 12 ? 3 : 4), masks = s->head == 40 && s->compression ? 12 : 0;
    const uint32_t start = (uint32_t)(14 + s->head + masks + palette);
    blob_add(&b, "BM", 2);
    little(&b, 0, 4);
    little(&b, 0, 4);
    little(&b, s->offset ? (uint32_t)s->offset : start, 4);
    little(&b, (uint32_t)s->head, 4);
    little(&b, W, s->head == 12 ? 2 : 4);
    little(&b, (uint32_t)s->height, s->head == 12 ? 2 : 4);
    little(&b, 1, 2);
    little(&b, (uint32_t)s->bits, 2);
    if (s->head > 12) {
        little(&b, (uint32_t)s->compression, 4);
        for (int i = 0; i < 3; i++)
            little(&b, 0, 4);
        little(&b, (uint32_t)s->colours, 4);
        little(&b, 0, 4);
        for (int i = 0; i < (masks ? 3 : s->head > 40 ? 4 : 0); i++)
            little(&b, s->mask[i], 4);
        for (int i = 56; i < s->head; i++)
            little(&b, 0, 1);
    }
    for (int i = 0; i < palette; i++)
        little(&b, (uint32_t)(i / (s->head == 12 ? 3 : 4) * 255 / (s->colours - 1)), 1);
    for (int row = 0; row < H; row++) {
        const int y = s->height < 0 ? row : H - 1 - row;
        const size_t before = b.size;
        uint32_t packed = 0;
        for (int x = 0; x < W; x++) {
            const uint32_t c[] = { pattern(x, y, 0), pattern(x, y, 1), pattern(x, y, 2), 255 };
            if (s->bits == 24) {
                little(&b, c[2] | c[1] << 8 | c[0] << 16, 3);
            } else if (s->bits > 8) {
                uint32_t v = 0;
                for (int k = 0; k < 4; k++)
                    v |= s->mask[k] ? masked(c[k], s->mask[k]) : 0;
                little(&b, v, s->bits / 8);
            } else {
                packed = packed << s->bits | (c[0] * (uint32_t)(s->colours - 1) + 127) / 255;
                if ((x + 1) * s->bits % 8 == 0 || x == W - 1) {
                    const int used = (x + 1) * s->bits % 8;
                    little(&b, packed << (used ? 8 - used : 0), 1);
                    packed = 0;
                }
            }
        }
        while ((b.size - before) % 4)
            little(&b, 0, 1);
    }
    return b;
}

static void bmp_of_every_kind(void **state)
{
    (void)state;
    const bmp_spec specs[] = {
        { .head = 40, .bits = 24, .height = H },
        { .head = 40, .bits = 24, .height = -H },
        { .head = 12, .bits = 24, .height = H },
        { .head = 40, .bits = 32, .height = H, .mask = { 0xff0000, 0xff00, 0xff, 0 } },
        { .head = 124, .bits = 32, .compression = 3, .height = H, .mask = { 0xff0000, 0xff00, 0xff, 0xff000000 } },
        { .head = 108, .bits = 32, .compression = 3, .height = H, .mask = { 0x3ff00000, 0xffc00, 0x3ff, 0 } },
        { .head = 40, .bits = 16, .height = H, .mask = { 0x7c00, 0x3e0, 0x1f, 0 } },
        { .head = 40, .bits = 16, .compression = 3, .height = H, .mask = { 0xf800, 0x7e0, 0x1f, 0 } },
    };
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        blob b = make_bmp(&specs[i]);
        zn_image *im = must_read(&b, NULL);
        is_pattern(im, specs[i].bits == 16 ? 8 : specs[i].mask[0] > 0xffffff ? 1 : 0);
        zn_image_free(im);
        survives(&b);
        blob_free(&b);
    }
}

static void bmp_with_palette(void **state)
{
    (void)state;
    for (int bits = 1; bits <= 8; bits = bits == 1 ? 4 : 2 * bits)
        for (int head = 12; head <= 40; head += 28) {
            const int colours = 1 << bits;
            blob b = make_bmp(&(bmp_spec){ .head = head, .bits = bits, .height = H, .colours = colours });
            zn_image *im = must_read(&b, NULL);
            assert_true(im->grey);
            for (int i = 0; i < W * H; i++) {
                const int index = (pattern(i % W, i / W, 0) * (colours - 1) + 127) / 255;
                assert_int_equal(at(im, i % W, i / W, 0), index * 255 / (colours - 1));
            }
            zn_image_free(im);
            survives(&b);
            blob_free(&b);
        }
}

static void bmp_that_lies(void **state)
{
    (void)state;
    const struct {
        bmp_spec spec;
        zn_status code;
        const char *word;
    } cases[] = {
        { { .head = 40, .bits = 24, .height = H * 1000 }, ZN_EFORMAT, "cannot hold" },
        { { .head = 40, .bits = 24, .height = 0x7fffffff }, ZN_ELIMIT, "limit" },
        { { .head = 40, .bits = 24, .height = (int)0x80000000 }, ZN_ELIMIT, "limit" },
        { { .head = 40, .bits = 24, .height = 0 }, ZN_EFORMAT, "empty" },
        { { .head = 40, .bits = 7, .height = H, .colours = 2 }, ZN_EFORMAT, "7 bits" },
        { { .head = 40, .bits = 8, .height = H, .colours = 2, .compression = 1 }, ZN_EUNSUPPORTED, "compressed" },
        { { .head = 40, .bits = 24, .height = H, .offset = 1 << 30 }, ZN_EFORMAT, "cannot hold" },
        { { .head = 40, .bits = 8, .height = H, .colours = 2, .offset = 20 }, ZN_EFORMAT, "palette" },
        { { .head = 40, .bits = 32, .compression = 3, .height = H, .mask = { 0x50, 0xff00, 0xff0000, 0 } },
          ZN_EFORMAT,
          "mask" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        blob b = make_bmp(&cases[i].spec);
        must_fail(&b, NULL, cases[i].code, cases[i].word);
        blob_free(&b);
    }
}

/* ---- TIFF ---- */

#ifdef TEST_TIFF
typedef struct tiff_spec {
    int bits, channels, photometric, compression, orientation, tiled, planar;
    int clear;      /* 255 minus the fourth sample */
    int undeclared; /* which is not said to be alpha */
} tiff_spec;

static int tiff_sample(const tiff_spec *s, int x, int y, int c)
{
    const int v = c == 3 ? 255 - s->clear : pattern(x, y, s->channels < 3 ? 0 : c);
    return s->photometric == PHOTOMETRIC_MINISWHITE ? 255 - v : v;
}

static void tiff_row(const tiff_spec *s, int y, int plane, uint8_t *row)
{
    const int n = s->planar ? 1 : s->channels;
    for (int i = 0; i < W * n; i++) {
        const int v = tiff_sample(s, i / n, y, s->planar ? plane : i % n);
        if (s->bits == 16)
            ((uint16_t *)(void *)row)[i] = (uint16_t)(v * 257);
        else
            row[i] = (uint8_t)v;
    }
}

static blob make_tiff(const tiff_spec *s)
{
    static _Alignas(8) uint8_t row[16 * 16 * 8];
    TIFF *t = TIFFOpen(path, "w");
    assert_non_null(t);
    TIFFSetField(t, TIFFTAG_IMAGEWIDTH, W);
    TIFFSetField(t, TIFFTAG_IMAGELENGTH, H);
    TIFFSetField(t, TIFFTAG_BITSPERSAMPLE, s->bits);
    TIFFSetField(t, TIFFTAG_SAMPLESPERPIXEL, s->channels);
    TIFFSetField(t, TIFFTAG_PHOTOMETRIC, s->photometric);
    TIFFSetField(t, TIFFTAG_COMPRESSION, s->compression ? s->compression : COMPRESSION_NONE);
    TIFFSetField(t, TIFFTAG_PLANARCONFIG, s->planar ? PLANARCONFIG_SEPARATE : PLANARCONFIG_CONTIG);
    TIFFSetField(t, TIFFTAG_XMLPACKET, 8, "<x:meta>");
    TIFFSetField(t, TIFFTAG_RESOLUTIONUNIT, RESUNIT_CENTIMETER);
    TIFFSetField(t, TIFFTAG_XRESOLUTION, 118.11);
    TIFFSetField(t, TIFFTAG_YRESOLUTION, 59.055);
    if (s->orientation)
        TIFFSetField(t, TIFFTAG_ORIENTATION, s->orientation);
    if (s->channels == 2 || s->channels > 3)
        TIFFSetField(t, TIFFTAG_EXTRASAMPLES, 1,
                     (uint16_t[]){ s->undeclared ? EXTRASAMPLE_UNSPECIFIED : EXTRASAMPLE_UNASSALPHA });
    if (s->tiled) {
        TIFFSetField(t, TIFFTAG_TILEWIDTH, 16);
        TIFFSetField(t, TIFFTAG_TILELENGTH, 16);
        for (int y = 0; y < H; y++)
            tiff_row(s, y, 0, row + y * 16 * s->channels);
        assert_true(TIFFWriteTile(t, row, 0, 0, 0, 0) > 0);
    } else {
        TIFFSetField(t, TIFFTAG_ROWSPERSTRIP, 2);
        for (int plane = 0; plane < (s->planar ? s->channels : 1); plane++)
            for (int y = 0; y < H; y++) {
                tiff_row(s, y, plane, row);
                assert_int_equal(TIFFWriteScanline(t, row, (uint32_t)y, (uint16_t)plane), 1);
            }
    }
    TIFFClose(t);
    return slurp(path);
}

/* Where libtiff converts, it gives every pixel an alpha. */
static void has_alpha_if(const char *file, bool expected)
{
    zn_image *alpha = NULL;
    assert_int_equal(zn_image_read_alpha(file, NULL, &alpha), ZN_OK);
    assert_true(!alpha == !expected);
    zn_image_free(alpha);
}

static void tiff_of_every_kind(void **state)
{
    (void)state;
    TIFFSetWarningHandler(NULL);
    const tiff_spec specs[] = {
        { .bits = 8, .channels = 3, .photometric = PHOTOMETRIC_RGB },
        { .bits = 8, .channels = 3, .photometric = PHOTOMETRIC_RGB, .compression = COMPRESSION_LZW },
        { .bits = 16, .channels = 3, .photometric = PHOTOMETRIC_RGB },
        { .bits = 16, .channels = 4, .photometric = PHOTOMETRIC_RGB, .compression = COMPRESSION_ADOBE_DEFLATE },
        { .bits = 8, .channels = 3, .photometric = PHOTOMETRIC_RGB, .tiled = 1 },
        { .bits = 8, .channels = 4, .photometric = PHOTOMETRIC_RGB, .tiled = 1 },
        { .bits = 8, .channels = 3, .photometric = PHOTOMETRIC_RGB, .planar = 1 },
    };
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        blob b = make_tiff(&specs[i]);
        has_alpha_if(path, specs[i].channels == 4);
        zn_image *im = must_read(&b, NULL);
        assert_int_equal(im->bits, specs[i].bits);
        is_pattern(im, 0);
        zn_image_free(im);
        survives(&b);
        blob_free(&b);
    }
}

/* Grey and CMYK with a sample of another kind, such as a spot colour. A fourth sample of RGB may be alpha undeclared.
 */
static void tiff_with_other_samples(void **state)
{
    (void)state;
    static const struct {
        tiff_spec spec;
        bool transparent;
    } cases[] = {
        { { .bits = 8, .channels = 2, .photometric = PHOTOMETRIC_MINISBLACK, .undeclared = 1 }, false },
        { { .bits = 8, .channels = 2, .photometric = PHOTOMETRIC_MINISBLACK }, true },
        { { .bits = 8, .channels = 5, .photometric = PHOTOMETRIC_SEPARATED, .undeclared = 1 }, false },
        { { .bits = 8, .channels = 5, .photometric = PHOTOMETRIC_SEPARATED, .undeclared = 1, .tiled = 1 }, false },
        { { .bits = 8, .channels = 4, .photometric = PHOTOMETRIC_RGB, .undeclared = 1 }, false },
        { { .bits = 8, .channels = 4, .photometric = PHOTOMETRIC_RGB, .undeclared = 1, .clear = 55 }, true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tiff_spec *s = &cases[i].spec;
        blob b = make_tiff(s);
        has_alpha_if(path, cases[i].transparent);
        if (!cases[i].transparent) {
            zn_image *im = must_read(&b, NULL);
            assert_int_equal(at(im, 3, 2, 1), s->channels == 5   ? 0
                                              : s->channels == 4 ? pattern(3, 2, 1)
                                                                 : pattern(3, 2, 0));
            zn_image_free(im);
        }
        survives(&b);
        blob_free(&b);
    }
}

static void tiff_of_grey(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        const tiff_spec s = { .bits = i % 2 ? 16 : 8,
                              .channels = 1,
                              .photometric = i < 2 ? PHOTOMETRIC_MINISBLACK : PHOTOMETRIC_MINISWHITE };
        blob b = make_tiff(&s);
        zn_image *im = must_read(&b, NULL);
        assert_true(im->grey && im->bits == s.bits);
        for (int k = 0; k < W * H; k++)
            assert_int_equal(at(im, k % W, k / W, 1), pattern(k % W, k / W, 0) * (s.bits == 16 ? 257 : 1));
        zn_image_free(im);
        blob_free(&b);
    }
}

/* Orientation 6, to be turned right: the stored bottom left is the top left. The same in both ways of reading. */
static void tiff_is_made_upright(void **state)
{
    (void)state;
    for (int tiled = 0; tiled < 2; tiled++)
        for (int orientation = 3; orientation <= 6; orientation += 3) {
            blob b = make_tiff(&(tiff_spec){ 8, 3, PHOTOMETRIC_RGB, .orientation = orientation, .tiled = tiled });
            zn_image *im = must_read(&b, NULL);
            assert_int_equal(im->width, orientation == 6 ? H : W);
            assert_int_equal(at(im, 0, 0, 0), pattern(orientation == 6 ? 0 : W - 1, H - 1, 0));
            assert_int_equal(at(im, 1, 0, 2), pattern(orientation == 6 ? 0 : W - 2, H - (orientation == 6 ? 2 : 1), 2));
            zn_image_free(im);
            blob_free(&b);
        }
}

/* A scan in black and white; libtiff makes 8 bits of its single ones. */
static void tiff_of_one_bit(void **state)
{
    (void)state;
    for (int bits = 1; bits <= 8; bits += 7) {
        const int white = bits == 1 ? PHOTOMETRIC_MINISWHITE : PHOTOMETRIC_MINISBLACK;
        blob b = make_tiff(&(tiff_spec){ .bits = bits, .channels = 1, .photometric = white });
        zn_image_kind kind;
        assert_int_equal(zn_image_probe(path, &kind), ZN_OK);
        assert_int_equal(kind.bits, bits == 1 ? 1 : 0);
        has_alpha_if(path, false);
        zn_image *im = must_read(&b, NULL);
        assert_true(im->grey && im->bits == 8);
        zn_image_free(im);
        blob_free(&b);
    }
}

static void tiff_has_xmp_and_density(void **state)
{
    (void)state;
    blob b = make_tiff(&(tiff_spec){ .bits = 8, .channels = 3, .photometric = PHOTOMETRIC_RGB });
    zn_image_metadata m;
    assert_int_equal(zn_image_read_metadata(path, &m), ZN_OK);
    assert_int_equal(m.xmp_size, 8);
    assert_memory_equal(m.xmp, "<x:meta>", 8);
    assert_int_equal((int)(m.dpi_x + 0.5), 300);
    assert_int_equal((int)(m.dpi_y + 0.5), 150);
    zn_image_metadata_free(&m);
    blob_free(&b);
}
#endif

/* ---- GIF ---- */

#ifdef TEST_GIF
/* A canvas of W x H; each frame a rectangle of one colour of the palette, its index the frame's number. */
static blob make_gif(int frames, int interlaced, const int rectangle[4], int transparent, int disposal)
{
    GifColorType colours[8];
    for (int i = 0; i < 8; i++)
        colours[i] = (GifColorType){ (GifByteType)(i * 30), (GifByteType)(255 - i * 30), (GifByteType)(i * 7) };
    GifFileType *g = EGifOpenFileName(path, 0, NULL);
    assert_non_null(g);
    EGifSetGifVersion(g, 1);
    ColorMapObject *map = GifMakeMapObject(8, colours);
    assert_int_equal(EGifPutScreenDesc(g, W, H, 3, 0, map), GIF_OK);
    for (int f = 0; f < frames; f++) {
        GifByteType control[4], line[W];
        EGifGCBToExtension(&(GraphicsControlBlock){ disposal, false, 10, transparent }, control);
        EGifPutExtension(g, GRAPHICS_EXT_FUNC_CODE, 4, control);
        const int whole[4] = { 0, 0, W, H }, *r = f ? rectangle : whole;
        assert_int_equal(EGifPutImageDesc(g, r[0], r[1], r[2], r[3], interlaced, NULL), GIF_OK);
        static const int order[H] = { 0, 4, 2, 1, 3, 5 };
        for (int i = 0; i < r[3]; i++) {
            const int y = interlaced ? order[i] : i;
            for (int x = 0; x < r[2]; x++)
                line[x] = (GifByteType)(f ? f : (x + y) % 8);
            assert_int_equal(EGifPutLine(g, line, r[2]), GIF_OK);
        }
    }
    GifFreeMapObject(map);
    assert_int_equal(EGifCloseFile(g, NULL), GIF_OK);
    return slurp(path);
}

static void gif_first_frame(void **state)
{
    (void)state;
    const int part[4] = { 2, 1, 5, 3 };
    for (int interlaced = 0; interlaced < 2; interlaced++) {
        blob b = make_gif(1 + interlaced, interlaced, part, interlaced ? 3 : NO_TRANSPARENT_COLOR, 1);
        zn_image *im = must_read(&b, &(zn_image_read_options){ .background = { 1, 2, 3 } });
        assert_true(im->width == W && im->height == H && im->bits == 8);
        for (int i = 0; i < W * H; i++) {
            const int index = (i % W + i / W) % 8, clear = interlaced && index == 3;
            assert_int_equal(at(im, i % W, i / W, 0), clear ? 1 : index * 30);
            assert_int_equal(at(im, i % W, i / W, 1), clear ? 2 : 255 - index * 30);
        }
        zn_image_free(im);
        survives(&b);
        blob_free(&b);
        zn_image_kind kind;
        assert_int_equal(zn_image_probe(path, &kind), ZN_OK);
        assert_string_equal(kind.format, "gif");
        assert_int_equal(kind.frames, 1 + interlaced);
    }
}

/* Frames after the first cover columns 2 to 6 and rows 1 to 3 with their own colour. */
static void gif_frames(void **state)
{
    (void)state;
    const int part[4] = { 2, 1, 5, 3 };
    for (int disposal = DISPOSE_DO_NOT; disposal <= DISPOSE_PREVIOUS; disposal++) {
        blob b = make_gif(3, 0, part, NO_TRANSPARENT_COLOR, disposal);
        zn_animation *a;
        zn_image *im;
        assert_int_equal(zn_animation_open(path, &(zn_image_read_options){ .background = { 1, 2, 3 } }, &a), ZN_OK);
        for (int f = 0; f < 3; f++) {
            assert_int_equal(zn_animation_next(a, &im), ZN_OK);
            assert_non_null(im);
            assert_int_equal(at(im, 3, 2, 0), f ? f * 30 : 5 * 30);
            /* outside of the part: the first frame, unless it was cleared or undone */
            assert_int_equal(at(im, 0, 0, 1), f == 0 || disposal == DISPOSE_DO_NOT ? 255 : 2);
            zn_image_free(im);
        }
        assert_int_equal(zn_animation_next(a, &im), ZN_OK);
        assert_null(im);
        zn_animation_close(a);
        blob_free(&b);
    }
}

/* The frames that `path` holds; *status: how it ends. */
static int count_frames(zn_status *status)
{
    zn_animation *a;
    zn_image *im;
    int count = 0;
    assert_int_equal(zn_animation_open(path, NULL, &a), ZN_OK);
    while ((*status = zn_animation_next(a, &im)) == ZN_OK && im) {
        zn_image_free(im);
        count++;
    }
    zn_animation_close(a);
    return count;
}

/* Many writers leave out the last byte. */
static void gif_without_its_trailer(void **state)
{
    (void)state;
    const int part[4] = { 2, 1, 5, 3 };
    zn_status status;
    blob b = make_gif(3, 0, part, NO_TRANSPARENT_COLOR, 1);
    assert_int_equal(b.data[b.size - 1], ';');
    assert_int_equal(truncate(path, (off_t)b.size - 1), 0);
    assert_int_equal(count_frames(&status), 3);
    assert_int_equal(status, ZN_OK);
    assert_int_equal(truncate(path, (off_t)b.size - 2), 0); /* in the last frame */
    assert_int_equal(count_frames(&status), 2);
    assert_int_equal(status, ZN_EFORMAT);
    blob_free(&b);
}
#endif

/* ---- HEIC and AVIF ---- */

static void heif_through_heif_enc(void **state)
{
    (void)state;
    enum { SIDE = 64 };
    if (system("command -v heif-enc >/dev/null 2>&1"))
        skip_because("heif-enc (Debian: libheif-examples) is not installed");
    char png[80], command[256];
    snprintf(png, sizeof png, "%s.png", path);
    zn_image *im, *back;
    assert_int_equal(zn_image_new(SIDE, SIDE, 8, &im), ZN_OK);
    for (int i = 0; i < SIDE * SIDE * 3; i++)
        ((uint8_t *)im->pixels)[i] = (uint8_t)(i % 3 == 0 ? i / 3 % SIDE * 3 : i % 3 == 1 ? i / 3 / SIDE * 3 : 90);
    assert_int_equal(zn_image_write(png, im, NULL), ZN_OK);
    for (int avif = 0; avif < 2; avif++) {
        snprintf(command, sizeof command, "heif-enc %s -q 90 %s -o %s >/dev/null 2>&1", avif ? "-A" : "", png, path);
        if (system(command))
            skip_because("heif-enc has no encoder for this format");
        zn_image_kind kind;
        zn_image_difference d;
        assert_int_equal(zn_image_probe(path, &kind), ZN_OK);
        assert_string_equal(kind.format, avif ? "avif" : "heic");
        const zn_status status = zn_image_read(path, NULL, &back);
#ifdef TEST_HEIF
        assert_int_equal(status, ZN_OK);
        assert_int_equal(zn_image_compare(im, back, &d), ZN_OK);
        assert_true(d.psnr > 30);
        zn_image_free(back);
        blob b = slurp(path);
        must_fail(&b, &(zn_image_read_options){ .max_pixels = 100 }, ZN_ELIMIT, "limit of 100");
        blob_free(&b);
#else
        (void)d;
        assert_int_equal(status, ZN_EUNSUPPORTED);
#endif
    }
    unlink(png);
    zn_image_free(im);
}

/* ---- what this build lacks ---- */

static void missing_formats_are_named(void **state)
{
    (void)state;
    const struct {
        const char *bytes, *words;
        int built_in;
    } cases[] = {
#ifndef TEST_HEIF
        { "\0\0\0\x18"
          "ftypheic\0\0\0\0mif1heic",
          "HEIC is not supported in this build; install libheif-dev and rebuild", 0 },
        { "\0\0\0\x18"
          "ftypavif\0\0\0\0mif1avif",
          "AVIF is not supported in this build; install libheif-dev and rebuild", 0 },
#endif
#ifndef TEST_TIFF
        { "II*\0\x08\0\0\0................", "TIFF is not supported in this build; install libtiff-dev and rebuild",
          0 },
#endif
#ifndef TEST_GIF
        { "GIF89a..................", "GIF is not supported in this build; install libgif-dev and rebuild", 0 },
#endif
        { "\0\0\0\x18" /* MP4, 3GP, and a raw photo in CR3 */
          "ftypisom\0\0\2\0isommp41",
          "image in memory: a video, not an image", 1 },
        { "\0\0\0\x18"
          "ftyp3gp4\0\0\2\0isommp41",
          "image in memory: a video, not an image", 1 },
        { "\0\0\0\x18"
          "ftypcrx \0\0\0\1crx isom",
          "not an image of a known format", 1 },
        { "no image at all.........", "not an image of a known format (PNG, JPEG, WebP, HEIC, AVIF, TIFF, GIF, BMP)",
          1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        must_fail(&(blob){ (uint8_t *)cases[i].bytes, 24 }, NULL, cases[i].built_in ? ZN_EFORMAT : ZN_EUNSUPPORTED,
                  cases[i].words);
}

int main(void)
{
    snprintf(path, sizeof path, "/tmp/zenith-more-%ld", (long)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bmp_of_every_kind),
        cmocka_unit_test(bmp_with_palette),
        cmocka_unit_test(bmp_that_lies),
#ifdef TEST_TIFF
        cmocka_unit_test(tiff_of_every_kind),
        cmocka_unit_test(tiff_with_other_samples),
        cmocka_unit_test(tiff_of_grey),
        cmocka_unit_test(tiff_is_made_upright),
        cmocka_unit_test(tiff_of_one_bit),
        cmocka_unit_test(tiff_has_xmp_and_density),
#endif
#ifdef TEST_GIF
        cmocka_unit_test(gif_first_frame),
        cmocka_unit_test(gif_frames),
        cmocka_unit_test(gif_without_its_trailer),
#endif
        cmocka_unit_test(heif_through_heif_enc),
        cmocka_unit_test(missing_formats_are_named),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
