/* Photographs get the Average filter for every row and level 2: within two percent of what level 6 with a choice of
 * filters gives, in a quarter of the time, and saving must not take longer than decoding did. Flat pictures, such as
 * screenshots, would be up to six times as large that way, and are quickly compressed at level 6.
 *
 * Rows are compressed in blocks that do not wait for each other. A block has the end of the rows above it as its
 * dictionary, so it may repeat from them, and ends at a whole byte, so that the next one can follow. First each unit of
 * rows gets its way of filtering; a block is a unit, or several flat ones with the same way. */
#define ZLIB_CONST
#include "io/image/formats/png_rows.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/least.h"
#include "base/threads.h"
#include "io/image/formats/png_chunk.h"
#include "io/image/formats/png_filter.h"

#include <string.h>
#include <zlib.h>

enum {
    LEVEL = 2,
    FLAT_LEVEL = 6,
    MEMORY_LEVEL = 8,      /* zlib's own */
    UNIT = 128 << 10,      /* bytes of rows */
    UNITS_MOST = 4,        /* of a flat block: each block has code tables of its own */
    SAMPLE = 4,            /* this part of a flat unit is compressed to choose its way */
    DICTIONARY = 32 << 10, /* as far as deflate looks back */
    ROOM = 64 << 10,       /* how results grow */
    ROW_MOST = 1 << 30,    /* bytes: zlib counts a block's in 32 bits, PNG a chunk's in 31 */
    THREADS_MOST = 16,
    SCRATCH_MOST = 64 << 20, /* bytes of all threads, unless one needs more */
    BLOCKS_OF_THREAD = 4     /* compressed before they are appended */
};
enum { NO_WAY = 0xff };                               /* in place of a zn_png_way */
static const uint8_t ZLIB_HEADER[2] = { 0x78, 0x5e }; /* a window of 32 KiB, a fast level */

typedef struct block {
    int64_t begin, end; /* rows */
    zn_png_way way;
    zn_bytes chunk; /* a whole IDAT */
    uLong sum;      /* Adler-32 of the rows */
    bool failed;
} block;

typedef struct work {
    const zn_raster *raster;
    size_t line;   /* bytes of a filtered row */
    int64_t rows;  /* of a unit */
    int64_t most;  /* units of a flat block */
    int64_t above; /* of a dictionary */
    int64_t count; /* of units */
    uint8_t *ways; /* of the units; NO_WAY for lack of memory */
    block *blocks;
    const uint8_t *zeros; /* above the first row */
} work;

static void filter(const work *w, int64_t begin, int64_t end, uint8_t *to)
{
    for (int64_t y = begin; y < end; y++)
        zn_png_filter_row(w->raster, y, w->zeros, w->ways[y / w->rows], to + (size_t)(y - begin) * w->line);
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

static bool begin_deflate(z_stream *z, zn_png_way way)
{
    *z = (z_stream){ .zalloc = take, .zfree = give };
    return deflateInit2(z, way == ZN_PNG_PHOTO ? LEVEL : FLAT_LEVEL, Z_DEFLATED, -MAX_WBITS, MEMORY_LEVEL,
                        way == ZN_PNG_PLAIN ? Z_DEFAULT_STRATEGY : Z_FILTERED) == Z_OK;
}

/* Compresses `size` bytes at `rows`, which follow `before` bytes. */
static bool compress_rows(const uint8_t *rows, size_t before, size_t size, zn_png_way way, bool last, zn_bytes *out)
{
    z_stream z;
    if (!begin_deflate(&z, way))
        return false;
    const size_t seen = before < DICTIONARY ? before : DICTIONARY;
    const bool done = (!seen || deflateSetDictionary(&z, rows - seen, (uInt)seen) == Z_OK) &&
                      deflate_all(&z, rows, size, last ? Z_FINISH : Z_SYNC_FLUSH, out);
    deflateEnd(&z);
    return done;
}

/* How large these bytes get; SIZE_MAX for lack of memory. */
static size_t measure(const uint8_t *rows, size_t size, zn_png_way way)
{
    uint8_t unused[4096];
    z_stream z;
    if (!begin_deflate(&z, way))
        return SIZE_MAX;
    z.next_in = rows;
    z.avail_in = (uInt)size;
    do {
        z.next_out = unused;
        z.avail_out = sizeof unused;
    } while (deflate(&z, Z_FINISH) == Z_OK);
    size = z.total_out;
    deflateEnd(&z);
    return size;
}

/* A chunk: its size (4), its name (4), data, a CRC of name and data (4). */
static bool make_chunk(const uint8_t *rows, size_t before, size_t size, zn_png_way way, bool first, bool last,
                       zn_bytes *out)
{
    enum { HEAD = 8, SIZE = 4 };
    uint8_t sum[4];
    out->size = 0;
    if (!zn_bytes_append(out, "\0\0\0\0IDAT", HEAD) ||
        (first && !zn_bytes_append(out, ZLIB_HEADER, sizeof ZLIB_HEADER)) ||
        !compress_rows(rows, before, size, way, last, out))
        return false;
    zn_put_big32(out->data, (uint32_t)(out->size - HEAD));
    zn_put_big32(sum, (uint32_t)crc32(crc32(0, NULL, 0), out->data + SIZE, (uInt)(out->size - SIZE)));
    return zn_bytes_append(out, sum, sizeof sum);
}

static void choose_ways(const void *args, zn_range range)
{
    const work *w = args;
    for (int64_t i = range.begin; i < range.end; i++) {
        const int64_t begin = i * w->rows, end = zn_least(begin + w->rows, w->raster->height),
                      sample = begin + (end - begin + SAMPLE - 1) / SAMPLE;
        const size_t size = (size_t)(sample - begin) * w->line;
        w->ways[i] = ZN_PNG_PHOTO;
        if (!zn_png_is_flat(w->raster, begin, end))
            continue;
        w->ways[i] = ZN_PNG_LEAST;
        filter(w, begin, sample, range.scratch);
        const size_t least = measure(range.scratch, size, ZN_PNG_LEAST);
        w->ways[i] = ZN_PNG_PLAIN;
        filter(w, begin, sample, range.scratch);
        const size_t plain = measure(range.scratch, size, ZN_PNG_PLAIN);
        if (least == SIZE_MAX || plain == SIZE_MAX)
            w->ways[i] = NO_WAY;
        else if (least <= plain)
            w->ways[i] = ZN_PNG_LEAST;
    }
}

static void compress_blocks(const void *args, zn_range range)
{
    const work *w = args;
    for (int64_t i = range.begin; i < range.end; i++) {
        block *b = &w->blocks[i];
        const int64_t above = zn_least(b->begin, w->above);
        const size_t before = (size_t)above * w->line, size = (size_t)(b->end - b->begin) * w->line;
        uint8_t *rows = range.scratch;
        filter(w, b->begin - above, b->end, rows);
        b->sum = adler32(adler32(0, NULL, 0), rows + before, (uInt)size);
        b->failed =
            !make_chunk(rows + before, before, size, b->way, b->begin == 0, b->end == w->raster->height, &b->chunk);
    }
}

/* Sets the rows of a block that begins with unit `from`. Returns the unit behind it. */
static int64_t set_block(const work *w, int64_t from, block *b)
{
    int64_t to = from + 1;
    while (w->ways[from] != ZN_PNG_PHOTO && to < w->count && to < from + w->most && w->ways[to] == w->ways[from])
        to++;
    b->begin = from * w->rows;
    b->end = zn_least(to * w->rows, w->raster->height);
    b->way = w->ways[from];
    return to;
}

static bool add_blocks(work *w, zn_pool *pool, void *scratch, size_t stride, int64_t at_once, zn_bytes *out)
{
    uLong sum = adler32(0, NULL, 0);
    zn_pool_run(pool, w->count, 1, choose_ways, w, scratch, stride);
    if (memchr(w->ways, NO_WAY, (size_t)w->count))
        return false;
    for (int64_t unit = 0; unit < w->count;) {
        int64_t count = 0;
        while (count < at_once && unit < w->count)
            unit = set_block(w, unit, &w->blocks[count++]);
        zn_pool_run(pool, count, 1, compress_blocks, w, scratch, stride);
        for (int64_t i = 0; i < count; i++) {
            const block *b = &w->blocks[i];
            sum = adler32_combine(sum, b->sum, (z_off_t)((size_t)(b->end - b->begin) * w->line));
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
    work w = { .raster = raster };
    w.line = 1 + (size_t)raster->width * (size_t)raster->channels * (size_t)raster->bits / 8;
    if (w.line > ROW_MOST)
        return ZN_FAIL(ZN_ELIMIT, "an image %d pixels wide is too wide for a PNG", raster->width);
    w.rows = 1 + (int64_t)(UNIT / w.line);
    w.most = w.rows > 1 ? UNITS_MOST : 1;
    w.above = 1 + (int64_t)(DICTIONARY / w.line);
    w.count = (raster->height + w.rows - 1) / w.rows;
    const size_t stride = (size_t)(zn_least(w.rows * w.most, raster->height) + w.above) * w.line;
    threads = (int)zn_least(zn_least(threads ? threads : zn_cpu_count(), THREADS_MOST), w.count);
    threads = (int)zn_least(threads, 1 + (int64_t)(SCRATCH_MOST / stride));
    const int64_t at_once = zn_least(w.count, (int64_t)threads * BLOCKS_OF_THREAD);
    zn_pool *pool = NULL;
    void *scratch = zn_alloc(stride * (size_t)threads);
    zn_status status = zn_pool_new(threads, &pool);
    if (status != ZN_OK && threads > 1) /* an image that took long is not lost for lack of threads */
        status = zn_pool_new(1, &pool);
    w.ways = zn_calloc((size_t)w.count, 1);
    w.blocks = zn_calloc((size_t)at_once, sizeof *w.blocks);
    w.zeros = zn_calloc(w.line, 1);
    if (status == ZN_OK &&
        (!scratch || !w.ways || !w.blocks || !w.zeros || !add_blocks(&w, pool, scratch, stride, at_once, out)))
        status = ZN_FAIL(ZN_ENOMEM, "out of memory for writing a PNG");
    for (int64_t i = 0; w.blocks && i < at_once; i++)
        zn_bytes_free(&w.blocks[i].chunk);
    zn_pool_free(pool);
    zn_free(w.ways);
    zn_free(w.blocks);
    zn_free((void *)w.zeros);
    zn_free(scratch);
    return status;
}
