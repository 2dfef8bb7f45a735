/* TensorBoard's file format: records with checksums around protobuf messages. */
#include "train/record/events.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PATH_SIZE = 4096 };

struct zn_events {
    FILE *stream;
    char path[PATH_SIZE];
};

/* CRC-32C (Castagnoli), bit by bit: a few kilobytes for each record. */
static uint32_t crc32c(const uint8_t *p, size_t n)
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static uint32_t masked(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8u; }

/* ---- protobuf: a message is a run of (field << 3 | type, value) ---- */

typedef struct message {
    uint8_t *bytes;
    size_t size, capacity;
    bool failed;
} message;

static void put(message *m, const void *bytes, size_t n)
{
    m->failed = m->failed || !ZN_GROW(m->bytes, m->capacity, m->size + n);
    if (m->failed)
        return;
    memcpy(m->bytes + m->size, bytes, n);
    m->size += n;
}

static void put_varint(message *m, uint64_t v)
{
    uint8_t bytes[10];
    int n = 0;
    do {
        bytes[n++] = (uint8_t)(v & 127) | (v > 127 ? 128 : 0);
        v >>= 7;
    } while (v);
    put(m, bytes, (size_t)n);
}

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static void put_key(message *m, int field, int type) { put_varint(m, (uint64_t)(field << 3 | type)); }

static void put_bytes(message *m, int field, const void *bytes, size_t n)
{
    put_key(m, field, BYTES);
    put_varint(m, n);
    put(m, bytes, n);
}

static void put_int(message *m, int field, uint64_t v)
{
    put_key(m, field, VARINT);
    put_varint(m, v);
}

static zn_status write_record(zn_events *e, const message *m)
{
    const uint64_t length = m->size;
    uint8_t head[8];
    for (int i = 0; i < 8; i++)
        head[i] = (uint8_t)(length >> 8 * i);
    const uint32_t head_crc = masked(crc32c(head, 8)), crc = masked(crc32c(m->bytes, m->size));
    if (fwrite(head, 8, 1, e->stream) == 1 && fwrite(&head_crc, 4, 1, e->stream) == 1 &&
        fwrite(m->bytes, m->size, 1, e->stream) == 1 && fwrite(&crc, 4, 1, e->stream) == 1 && !fflush(e->stream))
        return ZN_OK;
    return ZN_FAIL(ZN_EIO, "%s: %s", e->path, strerror(errno));
}

/* Event { 1: wall_time double, 2: step int64, 3: file_version string, 5: summary } */
static zn_status write_event(zn_events *e, int64_t step, int field, const void *body, size_t size)
{
    message m = { 0 };
    const double wall = (double)time(NULL);
    put_key(&m, 1, FIXED64);
    put(&m, &wall, sizeof wall);
    if (step >= 0)
        put_int(&m, 2, (uint64_t)step);
    put_bytes(&m, field, body, size);
    const zn_status status = m.failed ? ZN_FAIL(ZN_ENOMEM, "out of memory for an event") : write_record(e, &m);
    zn_free(m.bytes);
    return status;
}

/* The step of an event as write_event begins it; -1 if it has none. */
static int64_t step_of(const uint8_t *event, size_t size)
{
    enum { STEP = 9 }; /* after the time */
    uint64_t step = 0;
    if (size <= STEP || event[0] != (1 << 3 | FIXED64) || event[STEP] != (2 << 3 | VARINT))
        return -1;
    for (size_t i = STEP + 1, shift = 0; i < size && shift < 63; i++, shift += 7) {
        step |= (uint64_t)(event[i] & 127) << shift;
        if (event[i] < 128)
            return (int64_t)step;
    }
    return -1;
}

/* Where the last record to keep ends. A process killed while writing leaves a part of one, and readers would stop
 * there; what it wrote after step `last` is written again. */
static long records_up_to(FILE *f, int64_t last)
{
    uint8_t head[12], event[20];
    long end = 0, size = fseek(f, 0, SEEK_END) ? 0 : ftell(f);
    for (uint64_t length = 0; fseek(f, end, SEEK_SET) == 0 && fread(head, 12, 1, f) == 1; end += 16 + (long)length) {
        length = 0;
        for (int i = 0; i < 8; i++)
            length |= (uint64_t)head[i] << 8 * i;
        if (size - end < 16 || length > (uint64_t)(size - end - 16))
            break;
        const size_t begun = fread(event, 1, length < sizeof event ? (size_t)length : sizeof event, f);
        if (step_of(event, begun) > last)
            break;
    }
    return end;
}

static zn_status cut_back(const char *path, int64_t last)
{
    FILE *f = fopen(path, "r+b");
    if (!f)
        return ZN_OK; /* a new run */
    const int failed = ftruncate(fileno(f), records_up_to(f, last)) ? errno : 0;
    fclose(f);
    return failed ? ZN_FAIL(ZN_EIO, "%s: %s", path, strerror(failed)) : ZN_OK;
}

zn_status zn_events_open(const char *folder, int64_t step, zn_events **out)
{
    *out = NULL;
    zn_events *e = zn_calloc(1, sizeof *e);
    if (!e)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for an event file");
    zn_status status;
    snprintf(e->path, sizeof e->path, "%s/events.out.tfevents.zenith", folder);
    ZN_TRY_DONE(cut_back(e->path, step));
    e->stream = fopen(e->path, "ab");
    if (!e->stream) {
        status = ZN_FAIL(ZN_EIO, "%s: %s", e->path, strerror(errno));
        goto done;
    }
    if (ftell(e->stream) == 0)
        ZN_TRY_DONE(write_event(e, -1, 3, "brain.Event:2", strlen("brain.Event:2")));
    *out = e;
    return ZN_OK;
done:
    zn_events_close(e);
    return status;
}

/* Summary { 1: Value { 1: tag, 2: simple_value float | 4: Image { 1: height, 2: width, 3: colorspace, 4: png } } } */
static zn_status write_value(zn_events *e, int64_t step, const message *value)
{
    message summary = { .failed = value->failed };
    put_bytes(&summary, 1, value->bytes, value->size);
    const zn_status status = summary.failed ? ZN_FAIL(ZN_ENOMEM, "out of memory for an event")
                                            : write_event(e, step, 5, summary.bytes, summary.size);
    zn_free(summary.bytes);
    return status;
}

zn_status zn_events_scalar(zn_events *e, const char *tag, int64_t step, double value)
{
    message v = { 0 };
    const float f = (float)value;
    put_bytes(&v, 1, tag, strlen(tag));
    put_key(&v, 2, FIXED32);
    put(&v, &f, sizeof f);
    const zn_status status = write_value(e, step, &v);
    zn_free(v.bytes);
    return status;
}

zn_status zn_events_image(zn_events *e, const char *tag, int64_t step, const zn_image *image)
{
    const zn_image_write_options writing = { .threads = 1 };
    void *png;
    size_t size;
    ZN_TRY(zn_image_write_memory("png", image, &writing, &png, &size));
    message picture = { 0 }, v = { 0 };
    put_int(&picture, 1, (uint64_t)image->height);
    put_int(&picture, 2, (uint64_t)image->width);
    put_int(&picture, 3, 3);
    put_bytes(&picture, 4, png, size);
    put_bytes(&v, 1, tag, strlen(tag));
    put_bytes(&v, 4, picture.bytes, picture.size);
    v.failed |= picture.failed;
    const zn_status status = write_value(e, step, &v);
    zn_free(picture.bytes);
    zn_free(v.bytes);
    zn_memory_free(png);
    return status;
}

void zn_events_close(zn_events *e)
{
    if (!e)
        return;
    if (e->stream)
        fclose(e->stream);
    zn_free(e);
}
