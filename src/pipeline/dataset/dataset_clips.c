/* Clips of videos and of folders of frames and videos. */
#include "pipeline/dataset/dataset_clips.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/least.h"
#include "base/text.h"
#include "io/dataset/dataset.h"
#include "io/image/pixels/resize.h"
#include "pipeline/dataset/dataset_photos.h"

#include <zenith/film.h>

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sides are multiples of the blocks that JPEG codes, so that no block has parts of two frames. */
enum { BLOCK = 8, NAME_SIZE = 512, PATH_SIZE = 4096 };
/* The longest sides that their writers take. */
enum { WEBP_SIDE = 16383, JPEG_SIDE = 65500 };

typedef struct builder {
    const zn_dataset_build_options *o;
    zn_dataset_writer *writer;
    char (*names)[NAME_SIZE];         /* of the inputs, in the set */
    char source[2 * NAME_SIZE];       /* whose frames are being read: a video, or a folder with frames */
    zn_image *strip;                  /* frames of the clip that is being made, one below the other */
    int width, height;                /* of a frame in it */
    int filled;                       /* frames in it */
    int64_t clips, taken;             /* of the source: clips written, frames taken */
    double change, spread;            /* of the source: sums over frames after another in a clip */
    char first[PATH_SIZE], why[1024]; /* the source that was skipped first, and its error */
    zn_dataset_build_result result;
} builder;

static zn_status cancelled(const builder *b, int input, double part)
{
    const zn_dataset_build_options *o = b->o;
    if (o->progress && o->progress(o->user, (input + part) / o->input_count))
        return ZN_FAIL(ZN_ECANCELLED, "cancelled");
    return ZN_OK;
}

/* ---- one clip ---- */

static void drop_strip(builder *b)
{
    zn_image_free(b->strip);
    b->strip = NULL;
    b->filled = 0;
}

/* Frames are scaled down until their shorter side is the set's size, and lose what does not fill a block. */
static zn_status begin_strip(builder *b, const zn_image *frame)
{
    const int side = zn_least(frame->width, frame->height);
    const double scale = side > b->o->size ? (double)b->o->size / side : 1;
    b->width = (int)(frame->width * scale + 0.5) / BLOCK * BLOCK;
    b->height = (int)(frame->height * scale + 0.5) / BLOCK * BLOCK;
    if (!b->width || !b->height)
        return ZN_FAIL(ZN_EINVALID, "frames of %dx%d are too small", frame->width, frame->height);
    const int highest = strcmp(b->o->format, "webp") == 0   ? WEBP_SIDE
                        : strcmp(b->o->format, "jpeg") == 0 ? JPEG_SIDE
                                                            : INT_MAX;
    if ((int64_t)b->height * b->o->clips > highest)
        return ZN_FAIL(ZN_ELIMIT,
                       "--clips %d with frames of %dx%d do not fit into one %s record: use fewer frames, a smaller "
                       "--size, or --format png",
                       b->o->clips, b->width, b->height, highest == WEBP_SIDE ? "WebP" : "JPEG");
    return zn_image_new(b->width, b->height * b->o->clips, 8, &b->strip);
}

static zn_status write_clip(builder *b)
{
    char name[3 * NAME_SIZE];
    void *bytes = NULL;
    size_t size;
    snprintf(name, sizeof name, "%s/%06lld#@%d", b->source, (long long)b->clips++, b->o->clips);
    zn_status status = zn_image_write_memory(b->o->format, b->strip, &b->o->write, &bytes, &size);
    if (status == ZN_OK)
        status = zn_dataset_writer_add(b->writer, name, bytes, size);
    zn_memory_free(bytes);
    drop_strip(b);
    b->result.pictures += status == ZN_OK;
    return status;
}

/* The largest part of the frame's middle that has the shape of those in the strip. */
static zn_region middle_of(const builder *b, const zn_image *frame)
{
    const double across = (double)frame->width / b->width, down = (double)frame->height / b->height;
    const double scale = across < down ? across : down;
    const int width = zn_least((int)(b->width * scale + 0.5), frame->width),
              height = zn_least((int)(b->height * scale + 0.5), frame->height);
    return (zn_region){ (frame->width - width) / 2, (frame->height - height) / 2, width, height };
}

/* How much a frame differs from the one before it, and from its own mean: in a video the first is far less. */
static void measure_change(builder *b, const uint8_t *before, const uint8_t *now, size_t bytes)
{
    double sum = 0, change = 0, spread = 0;
    for (size_t i = 0; i < bytes; i++) {
        sum += now[i];
        change += abs(now[i] - before[i]);
    }
    for (size_t i = 0; i < bytes; i++)
        spread += fabs(now[i] - sum / (double)bytes);
    b->change += change / (double)bytes;
    b->spread += spread / (double)bytes;
}

static zn_status add_frame(builder *b, const zn_image *frame)
{
    zn_image *small;
    if (!b->strip)
        ZN_TRY(begin_strip(b, frame));
    ZN_TRY(zn_image_shrink(frame, middle_of(b, frame), b->width, b->height, &small));
    const size_t bytes = (size_t)b->width * (size_t)b->height * 3;
    uint8_t *at = (uint8_t *)b->strip->pixels + bytes * (size_t)b->filled;
    memcpy(at, small->pixels, bytes);
    if (b->filled)
        measure_change(b, at - bytes, at, bytes);
    zn_image_free(small);
    b->taken++;
    return ++b->filled == b->o->clips ? write_clip(b) : ZN_OK;
}

static void report(const builder *b, const char *name, const char *why)
{
    if (b->o->skipped)
        b->o->skipped(b->o->user, name, why);
}

/* Skips the source whose error this is, which does not name it. The first is reported once there is a second, or at the
 * end: alone, it may be why the build fails. */
static void skip(builder *b, const char *name)
{
    if (++b->result.skipped == 1) {
        snprintf(b->first, sizeof b->first, "%s", name);
        snprintf(b->why, sizeof b->why, "%s", zn_error_text());
        return;
    }
    if (b->result.skipped == 2)
        report(b, b->first, b->why);
    report(b, name, zn_error_text());
}

/* After the last source. */
static zn_status end_skips(const builder *b)
{
    const bool names_it = strncmp(b->why, b->first, strlen(b->first)) == 0;
    if (b->result.skipped == 1 && !b->result.pictures)
        return ZN_FAIL(ZN_ENOTFOUND, "%s%s%s", names_it ? "" : b->first, names_it ? "" : ": ", b->why);
    if (b->result.skipped == 1)
        report(b, b->first, b->why);
    return b->result.pictures
               ? ZN_OK
               : ZN_FAIL(ZN_ENOTFOUND, "%s: no clip of %d frames could be made", b->o->output, b->o->clips);
}

static void forget_source(builder *b)
{
    drop_strip(b);
    b->taken = b->clips = 0;
    b->change = b->spread = 0;
}

/* The end of a source; what does not fill a clip is dropped. */
static zn_status end_source(builder *b)
{
    static const double alike = 0.9; /* photos have 1.05 and more, videos less than 0.6 at one frame a second */
    const int64_t taken = b->taken, clips = b->clips;
    b->result.photos += clips > 0;
    b->result.unrelated += clips > 0 && b->change > alike * b->spread;
    forget_source(b);
    if (!clips)
        return ZN_FAIL(ZN_EINVALID, "has only %lld frame%s, fewer than the %d of a clip", (long long)taken,
                       taken == 1 ? "" : "s", b->o->clips);
    return ZN_OK;
}

/* ---- videos ---- */

/* True if frame i is taken: those nearest to the rate, counted from the first. */
static bool is_taken(const builder *b, int64_t i, double rate)
{
    const double step = b->o->rate > 0 && rate > b->o->rate ? b->o->rate / rate : 1;
    return i == 0 || (int64_t)((double)i * step) > (int64_t)((double)(i - 1) * step);
}

/* Of a video that has been read to its end. */
static void report_faults(const builder *b, const zn_film *film, const char *path)
{
    zn_film_faults faults;
    zn_film_find_faults(film, &faults);
    if (b->o->faults && (faults.lost || faults.damaged || faults.interlaced || faults.missing > 0))
        b->o->faults(b->o->user, path, &faults);
}

/* b->source names it in the set. begin, share: of the input's progress. */
static zn_status read_film(builder *b, int input, const char *path, double begin, double share)
{
    zn_film_info info;
    zn_film *film;
    zn_image *frame = NULL;
    if (zn_ending(path, ".lmdb"))
        return ZN_FAIL(ZN_EINVALID, "%s: a data set, not a video: build from the videos it was made of", path);
    ZN_TRY(zn_film_describe(path, &info));
    ZN_TRY(zn_film_open(path, &film));
    zn_status status = ZN_OK;
    for (int64_t i = 0; status == ZN_OK; i++) {
        status = zn_film_next(film, &frame);
        if (status != ZN_OK || !frame)
            break;
        if (is_taken(b, i, info.rate))
            status = add_frame(b, frame);
        zn_image_free(frame);
        if (status == ZN_OK)
            status = cancelled(b, input, begin + (info.frames > 0 ? share * (double)i / (double)info.frames : 0));
    }
    if (status == ZN_OK)
        report_faults(b, film, path);
    zn_film_close(film);
    ZN_TRY(status);
    return end_source(b);
}

/* Whether a source that failed ends the work; else it is skipped. What was written of it before it failed stays. */
static bool ends_build(builder *b, zn_status status)
{
    forget_source(b);
    return status == ZN_ENOMEM || status == ZN_ECANCELLED || status == ZN_EIO;
}

/* ---- folders ---- */

/* Numbers within names count as numbers: frame9 is before frame10. */
static int by_number(const char *a, const char *b)
{
    while (*a && *b) {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            char *a_end, *b_end;
            const unsigned long long m = strtoull(a, &a_end, 10), n = strtoull(b, &b_end, 10);
            if (m != n)
                return m < n ? -1 : 1;
            a = a_end;
            b = b_end;
        } else if (*a != *b) {
            break;
        } else {
            a++;
            b++;
        }
    }
    return (unsigned char)*a - (unsigned char)*b;
}

/* An image of a folder: where it is, and its number in the data set that the folder is. */
typedef struct entry {
    const char *name;
    int64_t index;
} entry;

static size_t folder_length(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? (size_t)(slash - name) : 0;
}

static int compare_entries(const void *x, const void *y)
{
    const char *a = ((const entry *)x)->name, *b = ((const entry *)y)->name;
    const size_t m = folder_length(a), n = folder_length(b);
    const int order = strncmp(a, b, m < n ? m : n);
    if (order || m != n)
        return order ? order : m < n ? -1 : 1;
    const int numbers = by_number(a + m, b + n);
    return numbers ? numbers : strcmp(a, b);
}

/* The images [begin,end) of the list, which lie in one folder: the frames of one video. Photos that only lie together
 * are recognised by their sizes. done, share: of the input's progress. */
static zn_status read_sequence(builder *b, int input, const zn_dataset *set, const entry *list, int64_t begin,
                               int64_t end, double done, double share)
{
    int width = 0, height = 0;
    for (int64_t i = begin; i < end; i++) {
        zn_image *frame;
        ZN_TRY(zn_dataset_read(set, list[i].index, &frame));
        zn_status status = ZN_OK;
        if (i == begin) {
            width = frame->width;
            height = frame->height;
        }
        if (frame->width != width || frame->height != height)
            status = ZN_FAIL(ZN_EINVALID,
                             "frames differ in size, so they are not of one video: %s has %dx%d and %s has %dx%d",
                             list[begin].name, width, height, list[i].name, frame->width, frame->height);
        if (status == ZN_OK)
            status = add_frame(b, frame);
        zn_image_free(frame);
        ZN_TRY(status);
        ZN_TRY(cancelled(b, input, done + share * (double)(i - begin)));
    }
    return end_source(b);
}

/* Each folder with images in it is a video of its own. films: how many sources of the folder were read before. */
static zn_status read_frames(builder *b, int input, const zn_dataset *set, const entry *list, int64_t films)
{
    const int64_t count = zn_dataset_count(set);
    const double share = 1 / ((double)count * (double)(films + 1));
    for (int64_t begin = 0, end; begin < count; begin = end) {
        const char *name = list[begin].name;
        const size_t length = folder_length(name);
        for (end = begin + 1;
             end < count && folder_length(list[end].name) == length && !strncmp(list[end].name, name, length);)
            end++;
        snprintf(b->source, sizeof b->source, "%s%s%.*s", b->names[input], length ? "/" : "",
                 (int)zn_least((int)length, NAME_SIZE), name);
        const double done = (double)films / (double)(films + 1) + share * (double)begin;
        const zn_status status = read_sequence(b, input, set, list, begin, end, done, share);
        if (ends_build(b, status))
            return status;
        if (status != ZN_OK) {
            char folder[2 * PATH_SIZE];
            snprintf(folder, sizeof folder, "%s%s%.*s", b->o->inputs[input], length ? "/" : "",
                     (int)zn_least((int)length, NAME_SIZE), name);
            skip(b, folder);
        }
    }
    return ZN_OK;
}

static zn_status read_images(builder *b, int input, const zn_dataset *set, int64_t films)
{
    entry *list;
    const int64_t count = zn_dataset_count(set);
    ZN_TRY(zn_alloc_for("a list of frames", sizeof *list * (size_t)count, (void **)&list));
    for (int64_t i = 0; i < count; i++)
        list[i] = (entry){ zn_dataset_name(set, i), i };
    qsort(list, (size_t)count, sizeof *list, compare_entries);
    const zn_status status = read_frames(b, input, set, list, films);
    zn_free(list);
    return status;
}

/* Each video file in a folder, of which `all` sources are read. */
static zn_status read_films(builder *b, int input, const zn_dataset *films, int64_t all)
{
    for (int64_t i = 0; i < zn_dataset_count(films); i++) {
        const char *name = zn_dataset_name(films, i);
        char path[2 * PATH_SIZE];
        snprintf(path, sizeof path, "%s/%s", b->o->inputs[input], name);
        snprintf(b->source, sizeof b->source, "%s/%.*s", b->names[input], NAME_SIZE, name);
        const zn_status status = read_film(b, input, path, (double)i / (double)all, 1 / (double)all);
        if (ends_build(b, status))
            return status;
        if (status != ZN_OK)
            skip(b, path);
    }
    return ZN_OK;
}

/* Video files and images may lie side by side. */
static zn_status read_folder(builder *b, int input)
{
    const char *path = b->o->inputs[input];
    zn_dataset *films, *images;
    ZN_TRY(zn_dataset_list_films(path, &films));
    const int64_t count = zn_dataset_count(films);
    zn_status status = zn_dataset_open(path, &images);
    const bool none = status == ZN_ENOTFOUND;
    if (none)
        status = count ? ZN_OK : ZN_FAIL(ZN_ENOTFOUND, "%s: no videos and no images in it", path);
    if (status == ZN_OK && !none)
        status = zn_dataset_check_images(images, path);
    if (status == ZN_OK)
        status = read_films(b, input, films, count + !none);
    if (status == ZN_OK && !none)
        status = read_images(b, input, images, count);
    zn_dataset_close(images);
    zn_dataset_close(films);
    return status;
}

/* ---- all of them ---- */

/* The last part of the path, with a number after it where an earlier input has the same. */
static void name_input(builder *b, int input)
{
    const char *path = b->o->inputs[input], *end = path + strlen(path), *begin;
    char *name = b->names[input], base[NAME_SIZE / 2];
    while (end > path + 1 && end[-1] == '/')
        end--;
    for (begin = end; begin > path && begin[-1] != '/';)
        begin--;
    snprintf(base, sizeof base, "%.*s", (int)(end - begin), begin);
    snprintf(name, NAME_SIZE, "%s", base);
    for (int i = 0, number = 2; i < input; i++)
        if (!strcmp(b->names[i], name)) {
            snprintf(name, NAME_SIZE, "%s~%d", base, number++);
            i = -1; /* look again from the start */
        }
}

/* Sources that cannot be read, or are too short, are skipped. */
static zn_status build(builder *b)
{
    for (int i = 0; i < b->o->input_count; i++)
        if (!zn_exists(b->o->inputs[i]))
            return ZN_FAIL(ZN_ENOTFOUND, "%s: no such folder or video", b->o->inputs[i]);
    for (int i = 0; i < b->o->input_count; i++) {
        const char *path = b->o->inputs[i];
        name_input(b, i);
        snprintf(b->source, sizeof b->source, "%s", b->names[i]);
        const zn_status status = zn_is_folder(path) ? read_folder(b, i) : read_film(b, i, path, 0, 1);
        if (ends_build(b, status))
            return status;
        if (status != ZN_OK)
            skip(b, path);
    }
    ZN_TRY(end_skips(b));
    return zn_dataset_writer_commit(b->writer, &b->result.bytes);
}

zn_status zn_dataset_build_clips(const zn_dataset_build_options *o, zn_dataset_build_result *out)
{
    const double start = zn_clock_ms();
    builder b = { .o = o };
    zn_status status = ZN_OK;
    *out = (zn_dataset_build_result){ 0 };
    if (!zn_ranks_rank(o->ranks)) {
        b.names = zn_calloc((size_t)o->input_count, sizeof *b.names);
        status =
            b.names ? zn_dataset_writer_open(o->output, &b.writer) : ZN_FAIL(ZN_ENOMEM, "out of memory for a data set");
        if (status == ZN_OK)
            status = build(&b);
        zn_dataset_writer_free(b.writer);
        zn_free(b.names);
    }
    ZN_TRY(zn_ranks_agree(o->ranks, status));
    b.result.seconds = (zn_clock_ms() - start) * 1e-3;
    *out = b.result;
    return ZN_OK;
}
