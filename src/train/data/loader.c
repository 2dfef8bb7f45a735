/* The ring of batches: slot s holds steps s, s + ahead, s + 2 ahead, ...; workers take the next unmade picture, the
 * reader waits for its slot. */
#include "train/data/loader.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "train/data/order.h"
#include "train/ranks/parcel.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef struct slot {
    int64_t step; /* -1: free */
    int taken, made;
    float *pixels, *inputs; /* inputs: NULL without prepare */
    zn_parcel skipped;      /* what could not be read for it: numbers and reasons */
} slot;

struct zn_loader {
    const zn_dataset *data;
    zn_loader_options options;
    int64_t *usable; /* indices that are not held out */
    int64_t usable_count;
    slot *slots;
    pthread_t *threads;
    int started;
    pthread_mutex_t lock;
    pthread_cond_t work, ready;
    int64_t next_step; /* the next one the reader will ask for; -1 before the first call */
    bool stop;
    zn_status status; /* of the first failure */
    char text[1024];
    double waited;
};

/* Pixels of a picture, or of all frames of a video. */
static size_t pixels_of(const zn_loader_options *o)
{
    return (size_t)o->crop.size * (size_t)o->crop.size * (size_t)(o->crop.frames ? o->crop.frames : 1);
}

/* Texts of pictures that could not be read, for whoever takes the batch. */
static void note_skipped(void *user, int64_t picture, const char *why)
{
    zn_parcel_put(user, &picture, sizeof picture);
    zn_parcel_put_text(user, why);
}

/* Picture n, or if that cannot be read the one after it in the epoch: the same for all threads, ranks and calls. */
static zn_status read_picture(const zn_loader *l, uint64_t n, zn_parcel *skipped, zn_image **out, int *frames)
{
    const uint64_t count = (uint64_t)l->usable_count, epoch = n - n % count;
    const zn_skip skip = { note_skipped, skipped };
    char text[900];
    *out = NULL;
    for (uint64_t k = 0; k < count && !*out; k++) {
        const int64_t index = zn_order_at(l->options.seed, epoch + (n + k) % count, count);
        ZN_TRY(zn_picture_read(l->data, l->usable[index], &skip, out));
        *frames = zn_dataset_frames(l->data, l->usable[index]);
    }
    if (*out)
        return ZN_OK;
    snprintf(text, sizeof text, "%s", zn_error_text());
    return ZN_FAIL(ZN_EFORMAT, "none of the %lld images to train on can be read, among them %s",
                   (long long)l->usable_count, text);
}

static zn_status make_picture(const zn_loader *l, int64_t step, int index, zn_parcel *skipped, float *out, float *input)
{
    const zn_loader_options *o = &l->options;
    const uint64_t n = (uint64_t)step * (uint64_t)o->batch + (uint64_t)(o->first + index);
    zn_image *image;
    int frames;
    ZN_TRY(read_picture(l, n, skipped, &image, &frames));
    const zn_status status = zn_picture_crop(image, frames, &o->crop, zn_order_mix(o->seed + 1, n), out);
    zn_image_free(image);
    ZN_TRY(status);
    return o->prepare ? o->prepare(o->how, out, o->crop.size, zn_order_mix(o->seed + 2, n), input) : ZN_OK;
}

/* A slot with pictures to make, the earliest step first; NULL if there is none. Called with the lock held. */
static slot *slot_to_fill(zn_loader *l)
{
    slot *best = NULL;
    for (int i = 0; i < l->options.ahead; i++) {
        slot *s = &l->slots[i];
        if (s->step >= 0 && s->taken < l->options.count && (!best || s->step < best->step))
            best = s;
    }
    return best;
}

static void *work(void *arg)
{
    zn_loader *l = arg;
    const size_t pixels = pixels_of(&l->options);
    const size_t floats = pixels * 3, inputs = pixels * (size_t)l->options.inputs;
    pthread_mutex_lock(&l->lock);
    while (!l->stop) {
        slot *s = l->status == ZN_OK ? slot_to_fill(l) : NULL;
        if (!s) {
            pthread_cond_wait(&l->work, &l->lock);
            continue;
        }
        const int index = s->taken++;
        const int64_t step = s->step;
        pthread_mutex_unlock(&l->lock);
        zn_parcel skipped = { 0 };
        const zn_status status = make_picture(l, step, index, &skipped, s->pixels + floats * (size_t)index,
                                              s->inputs ? s->inputs + inputs * (size_t)index : NULL);
        pthread_mutex_lock(&l->lock);
        if (status != ZN_OK && l->status == ZN_OK) {
            l->status = status;
            snprintf(l->text, sizeof l->text, "%s", zn_error_text());
        }
        if (skipped.size)
            zn_parcel_put(&s->skipped, skipped.bytes, skipped.size);
        s->skipped.failed |= skipped.failed;
        zn_parcel_free(&skipped);
        s->made++;
        pthread_cond_broadcast(&l->ready);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static zn_status list_usable(zn_loader *l)
{
    const int64_t count = zn_dataset_count(l->data);
    ZN_TRY(zn_alloc_for("a list of pictures", sizeof(int64_t) * (size_t)count, (void **)&l->usable));
    for (int64_t i = 0; i < count; i++)
        if (!zn_dataset_held_out(l->data, i, l->options.held_out) &&
            zn_dataset_frames(l->data, i) >= l->options.crop.frames)
            l->usable[l->usable_count++] = i;
    if (!l->usable_count)
        return ZN_FAIL(ZN_EINVALID, "all images are held out: nothing to train on");
    return ZN_OK;
}

zn_status zn_loader_new(const zn_dataset *data, const zn_loader_options *options, zn_loader **out)
{
    *out = NULL;
    zn_loader *l = zn_calloc(1, sizeof *l);
    if (!l)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a loader");
    l->data = data;
    l->options = *options;
    zn_loader_options *o = &l->options;
    o->count = o->count > 0 ? o->count : o->batch;
    o->threads = o->threads > 0 ? o->threads : 1;
    o->ahead = o->ahead > 0 ? o->ahead : 4;
    l->next_step = -1;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->ready, NULL);
    zn_status status;
    ZN_TRY_DONE(list_usable(l));
    status = ZN_FAIL(ZN_ENOMEM, "out of memory for %d batches of %d pictures", o->ahead, o->count);
    l->slots = zn_calloc((size_t)o->ahead, sizeof *l->slots);
    l->threads = zn_calloc((size_t)o->threads, sizeof *l->threads);
    if (!l->slots || !l->threads)
        goto done;
    for (int i = 0; i < o->ahead; i++) {
        l->slots[i].step = -1;
        const size_t pixels = (size_t)o->count * pixels_of(o);
        l->slots[i].pixels = zn_alloc(sizeof(float) * pixels * 3);
        l->slots[i].inputs = o->prepare ? zn_alloc(sizeof(float) * pixels * (size_t)o->inputs) : NULL;
        if (!l->slots[i].pixels || (o->prepare && !l->slots[i].inputs))
            goto done;
    }
    for (; l->started < o->threads; l->started++)
        if (pthread_create(&l->threads[l->started], NULL, work, l)) {
            status = ZN_FAIL(ZN_ENOMEM, "the system refused a loader thread");
            goto done;
        }
    *out = l;
    return ZN_OK;
done:
    zn_loader_free(l);
    return status;
}

void zn_loader_free(zn_loader *l)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->started; i++)
        pthread_join(l->threads[i], NULL);
    for (int i = 0; l->slots && i < l->options.ahead; i++) {
        zn_free(l->slots[i].pixels);
        zn_free(l->slots[i].inputs);
        zn_parcel_free(&l->slots[i].skipped);
    }
    zn_free(l->slots);
    zn_free(l->threads);
    zn_free(l->usable);
    pthread_cond_destroy(&l->work);
    pthread_cond_destroy(&l->ready);
    pthread_mutex_destroy(&l->lock);
    zn_free(l);
}

static zn_status tell_skipped(const zn_loader *l, zn_parcel *skipped)
{
    const zn_skip *skip = &l->options.skip;
    const zn_status status = skipped->failed ? ZN_FAIL(ZN_ENOMEM, "out of memory for a list of pictures") : ZN_OK;
    size_t size;
    for (int64_t picture; status == ZN_OK && skip->note && zn_parcel_take(skipped, &picture, sizeof picture);)
        skip->note(skip->user, picture, zn_parcel_take_bytes(skipped, &size));
    zn_parcel_free(skipped);
    return status;
}

zn_status zn_loader_next(zn_loader *l, int64_t step, float *inputs, float *out)
{
    const int ahead = l->options.ahead;
    const double start = zn_clock_ms();
    pthread_mutex_lock(&l->lock);
    if (l->next_step < 0) { /* the first call starts the ring */
        for (int64_t s = step; s < step + ahead; s++)
            l->slots[s % ahead].step = s;
        l->next_step = step;
        pthread_cond_broadcast(&l->work);
    }
    slot *s = &l->slots[step % ahead];
    zn_parcel skipped = { 0 };
    zn_status status = ZN_OK;
    if (step != l->next_step)
        status = ZN_FAIL(ZN_EINVALID, "batches must be taken in order: %lld, not %lld", (long long)l->next_step,
                         (long long)step);
    while (status == ZN_OK && s->made < l->options.count && l->status == ZN_OK)
        pthread_cond_wait(&l->ready, &l->lock);
    if (status == ZN_OK && l->status != ZN_OK)
        status = ZN_FAIL(l->status, "%s", l->text);
    if (status == ZN_OK) {
        /* A slot that is full belongs to the reader: the workers go on while it is copied. */
        const size_t pixels = (size_t)l->options.count * pixels_of(&l->options);
        pthread_mutex_unlock(&l->lock);
        memcpy(out, s->pixels, sizeof(float) * pixels * 3);
        if (s->inputs && inputs)
            memcpy(inputs, s->inputs, sizeof(float) * pixels * (size_t)l->options.inputs);
        pthread_mutex_lock(&l->lock);
        skipped = s->skipped;
        *s = (slot){ .step = step + ahead, .pixels = s->pixels, .inputs = s->inputs };
        l->next_step = step + 1;
        pthread_cond_broadcast(&l->work);
    }
    l->waited += (zn_clock_ms() - start) * 1e-3;
    pthread_mutex_unlock(&l->lock);
    ZN_TRY(status);
    return tell_skipped(l, &skipped);
}

double zn_loader_waited(const zn_loader *l) { return l->waited; }
