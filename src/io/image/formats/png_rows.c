/* Level 2 and the Average filter for every row: on photographs that is within two percent of what level 6 with a choice
 * of filters gives, in a quarter of the time, and saving must not take longer than decoding did.
 *
 * Rows are compressed in blocks that do not wait for each other. A block has the end of the rows above it as its
 * dictionary, so it may repeat from them, and ends at a whole byte, so that the next one can follow. */
#define ZLIB_CONST
#include "io/image/formats/png_rows.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/least.h"
#include "base/threads.h"
#include "io/image/formats/png_chunk.h"

#include <string.h>
#include <zlib.h>

enum {
    LEVEL = 2,
    MEMORY_LEVEL = 8,      /* zlib's own */
    BLOCK = 128 << 10,     /* bytes of rows */
    DICTIONARY = 32 << 10, /* as far as deflate looks back */
    ROOM = 64 << 10,       /* how results grow */
    ROW_MOST = 1 << 30,    /* bytes: zlib counts a block's in 32 bits, PNG a chunk's in 31 */
    AVERAGE = 3,           /* the filter, as PNG numbers them */
    THREADS_MOST = 16,
    SCRATCH_MOST = 64 << 20, /* bytes of all threads, unless one needs more */
    BLOCKS_OF_THREAD = 4     /* compressed before they are appended */
};
static const uint8_t ZLIB_HEADER[2] = { 0x78, 0x5e }; /* a window of 32 KiB, a fast level */

typedef struct block {
    zn_bytes chunk; /* a whole IDAT */
    uLong sum;      /* Adler-32 of the rows */
    z_off_t size;
    bool failed;
} block;

typedef struct work {
    const zn_raster *raster;
    size_t row, pixel; /* bytes; a row without its filter's number */
    int64_t rows;      /* of a block */
    int64_t above;     /* of a dictionary */
    int64_t count;     /* of blocks */
    int64_t first;     /* the number of blocks[0] */
    block *blocks;
    const uint8_t *zeros; /* above the first row */
} work;

/* PNG's samples of 16 bits begin with the high byte: `swap` is 1 for them. */
static inline void average(const uint8_t *now, const uint8_t *up, size_t row, size_t pixel, size_t swap, uint8_t *to)
{
    for (size_t i = 0; i < pixel; i++)
        to[i] = (uint8_t)(now[i ^ swap] - up[i ^ swap] / 2);
    for (size_t i = pixel; i < row; i++)
        to[i] = (uint8_t)(now[i ^ swap] - (now[(i - pixel) ^ swap] + up[i ^ swap]) / 2);
}

static void filter(const work *w, int64_t y, uint8_t *to)
{
    const uint8_t *now = zn_raster_row(w->raster, y), *up = y ? zn_raster_row(w->raster, y - 1) : w->zeros;
    *to++ = AVERAGE;
    if (w->raster->bits == 16)
        average(now, up, w->row, w->pixel, 1, to);
    else
        average(now, up, w->row, w->pixel, 0, to);
}

static bool deflate_all(z_stream *z, const uint8_t *bytes, size_t size, int flush, zn_bytes *out)
{
    z->next_in = bytes;
    z->avail_in = (uInt)size;
    do {
        if (!zn_bytes_reserve(out, ROOM))
            return false;
        z->next_out = out->data + out->size;
        z->avail_out = ROOM;
        if (deflate(z, flush) == Z_STREAM_ERROR)
            return false;
        out->size += ROOM - z->avail_out;
    } while (!z->avail_out);
    return true;
}

static void *take(void *unused, unsigned count, unsigned size)
{
    (void)unused;
    return zn_calloc(count, size);
}

static void give(void *unused, void *memory)
{
    (void)unused;
    zn_free(memory);
}

/* Compresses `size` bytes at `rows`, which follow `before` bytes. */
static bool compress_rows(const uint8_t *rows, size_t before, size_t size, bool last, zn_bytes *out)
{
    z_stream z = { .zalloc = take, .zfree = give };
    if (deflateInit2(&z, LEVEL, Z_DEFLATED, -MAX_WBITS, MEMORY_LEVEL, Z_FILTERED) != Z_OK)
        return false;
    const size_t seen = before < DICTIONARY ? before : DICTIONARY;
    const bool done = (!seen || deflateSetDictionary(&z, rows - seen, (uInt)seen) == Z_OK) &&
                      deflate_all(&z, rows, size, last ? Z_FINISH : Z_SYNC_FLUSH, out);
    deflateEnd(&z);
    return done;
}

/* A chunk: its size (4), its name (4), data, a CRC of name and data (4). */
static bool make_chunk(const uint8_t *rows, size_t before, size_t size, bool first, bool last, zn_bytes *out)
{
    enum { HEAD = 8, SIZE = 4 };
    uint8_t sum[4];
    out->size = 0;
    if (!zn_bytes_append(out, "\0\0\0\0IDAT", HEAD) ||
        (first && !zn_bytes_append(out, ZLIB_HEADER, sizeof ZLIB_HEADER)) ||
        !compress_rows(rows, before, size, last, out))
        return false;
    zn_put_big32(out->data, (uint32_t)(out->size - HEAD));
    zn_put_big32(sum, (uint32_t)crc32(crc32(0, NULL, 0), out->data + SIZE, (uInt)(out->size - SIZE)));
    return zn_bytes_append(out, sum, sizeof sum);
}

static void compress_blocks(const void *args, zn_range range)
{
    const work *w = args;
    for (int64_t i = range.begin; i < range.end; i++) {
        block *b = &w->blocks[i];
        const int64_t begin = (w->first + i) * w->rows, end = zn_least(begin + w->rows, w->raster->height);
        const int64_t above = zn_least(begin, w->above);
        const size_t before = (size_t)above * (w->row + 1), size = (size_t)(end - begin) * (w->row + 1);
        uint8_t *rows = range.scratch;
        for (int64_t y = begin - above; y < end; y++)
            filter(w, y, rows + (size_t)(y - begin + above) * (w->row + 1));
        b->size = (z_off_t)size;
        b->sum = adler32(adler32(0, NULL, 0), rows + before, (uInt)size);
        b->failed = !make_chunk(rows + before, before, size, begin == 0, end == w->raster->height, &b->chunk);
    }
}

static bool add_blocks(work *w, zn_pool *pool, void *scratch, size_t stride, int64_t at_once, zn_bytes *out)
{
    uLong sum = adler32(0, NULL, 0);
    for (w->first = 0; w->first < w->count; w->first += at_once) {
        const int64_t count = zn_least(at_once, w->count - w->first);
        zn_pool_run(pool, count, 1, compress_blocks, w, scratch, stride);
        for (int64_t i = 0; i < count; i++) {
            const block *b = &w->blocks[i];
            sum = adler32_combine(sum, b->sum, b->size);
            if (b->failed || !zn_bytes_append(out, b->chunk.data, b->chunk.size))
                return false;
        }
    }
    uint8_t end[4];
    zn_put_big32(end, (uint32_t)sum);
    return zn_png_add_chunk(out, "IDAT", NULL, 0, end, sizeof end);
}

zn_status zn_png_add_rows(const zn_raster *raster, int threads, zn_bytes *out)
{
    work w = { .raster = raster, .pixel = (size_t)raster->channels * (size_t)raster->bits / 8 };
    w.row = (size_t)raster->width * w.pixel;
    if (w.row > ROW_MOST)
        return ZN_FAIL(ZN_ELIMIT, "an image %d pixels wide is too wide for a PNG", raster->width);
    w.rows = 1 + (int64_t)(BLOCK / (w.row + 1));
    w.above = 1 + (int64_t)(DICTIONARY / (w.row + 1));
    w.count = (raster->height + w.rows - 1) / w.rows;
    const size_t stride = (size_t)(w.rows + w.above) * (w.row + 1);
    threads = (int)zn_least(zn_least(threads ? threads : zn_cpu_count(), THREADS_MOST), w.count);
    threads = (int)zn_least(threads, 1 + (int64_t)(SCRATCH_MOST / stride));
    const int64_t at_once = zn_least(w.count, (int64_t)threads * BLOCKS_OF_THREAD);
    zn_pool *pool = NULL;
    void *scratch = zn_alloc(stride * (size_t)threads);
    zn_status status = zn_pool_new(threads, &pool);
    if (status != ZN_OK && threads > 1) /* an image that took long is not lost for lack of threads */
        status = zn_pool_new(1, &pool);
    w.blocks = zn_calloc((size_t)at_once, sizeof *w.blocks);
    w.zeros = zn_calloc(w.row, 1);
    if (status == ZN_OK && (!scratch || !w.blocks || !w.zeros || !add_blocks(&w, pool, scratch, stride, at_once, out)))
        status = ZN_FAIL(ZN_ENOMEM, "out of memory for writing a PNG");
    for (int64_t i = 0; w.blocks && i < at_once; i++)
        zn_bytes_free(&w.blocks[i].chunk);
    zn_pool_free(pool);
    zn_free(w.blocks);
    zn_free((void *)w.zeros);
    zn_free(scratch);
    return status;
}
