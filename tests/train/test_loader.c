/* The loader works ahead: with a reader that stands still the batches made before come out without a read, and the
 * time a caller has to wait is counted. The reader obeys the test, so nothing here depends on speed. Pictures that
 * cannot be read are left out in the same way by all. */
#include "base/fail.h"
#include "io/dataset/dataset.h"
#include "train/data/loader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { PICTURES = 7, BATCH = 3, SIZE = 8, AHEAD = 4 };

/* A data set whose reads wait for a permit. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int permits, reads;
} reader = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0 };

static void permit(int reads)
{
    pthread_mutex_lock(&reader.lock);
    reader.permits += reads;
    pthread_cond_broadcast(&reader.changed);
    pthread_mutex_unlock(&reader.lock);
}

static void wait_for_reads(int reads)
{
    pthread_mutex_lock(&reader.lock);
    while (reader.reads < reads)
        pthread_cond_wait(&reader.changed, &reader.lock);
    pthread_mutex_unlock(&reader.lock);
}

static zn_status slow_read(const zn_dataset *d, int64_t index, zn_image **out)
{
    (void)d;
    (void)index;
    pthread_mutex_lock(&reader.lock);
    while (reader.permits == 0)
        pthread_cond_wait(&reader.changed, &reader.lock);
    reader.permits--;
    reader.reads++;
    pthread_cond_broadcast(&reader.changed);
    pthread_mutex_unlock(&reader.lock);
    return zn_image_new(SIZE, SIZE, 8, out);
}

static zn_loader *new_loader(zn_dataset *d, int threads)
{
    static char *names[PICTURES];
    static const zn_dataset_kind kind = { .name = "slow", .read = slow_read };
    static char name[] = "picture";
    for (int i = 0; i < PICTURES; i++)
        names[i] = name;
    *d = (zn_dataset){ .kind = &kind, .path = name, .names = names, .count = PICTURES };
    reader.permits = reader.reads = 0;
    const zn_loader_options o = { .batch = BATCH, .crop.size = SIZE, .seed = 1, .threads = threads, .ahead = AHEAD };
    zn_loader *l;
    assert_int_equal(zn_loader_new(d, &o, &l), ZN_OK);
    return l;
}

/* After the ring has filled up, AHEAD batches need no reader at all. */
static void batches_are_made_ahead(void **state)
{
    (void)state;
    zn_dataset d;
    for (int threads = 1; threads <= 3; threads++) {
        zn_loader *l = new_loader(&d, threads);
        static float batch[BATCH * SIZE * SIZE * 3];
        permit((1 + AHEAD) * BATCH);
        assert_int_equal(zn_loader_next(l, 0, NULL, batch), ZN_OK);
        wait_for_reads((1 + AHEAD) * BATCH);
        for (int step = 1; step <= AHEAD; step++)
            assert_int_equal(zn_loader_next(l, step, NULL, batch), ZN_OK); /* would never return if it needed a read */
        assert_int_equal(reader.reads, (1 + AHEAD) * BATCH);
        permit(100 * BATCH); /* so that the workers come to an end */
        zn_loader_free(l);
    }
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Lets the reader go after a while; *at is when. */
static void *release_later(void *at)
{
    const struct timespec pause = { .tv_nsec = 60000000 };
    nanosleep(&pause, NULL);
    *(double *)at = seconds();
    permit(100 * BATCH);
    return NULL;
}

static void waiting_is_counted(void **state)
{
    (void)state;
    zn_dataset d;
    zn_loader *l = new_loader(&d, 2);
    static float batch[BATCH * SIZE * SIZE * 3];
    double released;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, release_later, &released), 0);
    assert_true(zn_loader_waited(l) == 0);
    const double begun = seconds();
    assert_int_equal(zn_loader_next(l, 0, NULL, batch), ZN_OK);
    const double ended = seconds();
    pthread_join(thread, NULL);
    /* The call could not end before the release, and all of it was waiting. */
    assert_true(zn_loader_waited(l) <= ended - begun);
    assert_true(zn_loader_waited(l) > 0.5 * (released - begun));
    zn_loader_free(l);
}

/* A picture whose samples count up. */
static zn_status counting_read(const zn_dataset *d, int64_t index, zn_image **out)
{
    (void)d;
    (void)index;
    const zn_status status = zn_image_new(2 * SIZE, 2 * SIZE, 8, out);
    for (int i = 0; status == ZN_OK && i < 12 * SIZE * SIZE; i++)
        ((uint8_t *)(*out)->pixels)[i] = (uint8_t)(i % 251);
    return status;
}

static void halved_crops_are_means(void **state)
{
    (void)state;
    static char name[] = "picture", *names[] = { name };
    static const zn_dataset_kind kind = { .name = "counting", .read = counting_read };
    zn_dataset d = { .kind = &kind, .names = names, .count = 1 };
    zn_loader *l;
    float crops[2][SIZE * SIZE * 3];
    const zn_loader_options o = { .batch = 1, .seed = 3, .crop = { .size = SIZE, .no_flip = true, .halve = 1 } };
    assert_int_equal(zn_loader_new(&d, &o, &l), ZN_OK);
    for (int step = 0; step < 2; step++)
        assert_int_equal(zn_loader_next(l, step, NULL, crops[step]), ZN_OK);
    zn_loader_free(l);
    for (int i = 0; i < SIZE * SIZE * 3; i++) {
        const int x = i / 3 % SIZE, y = i / 3 / SIZE, c = i % 3;
        int sum = 0;
        for (int k = 0; k < 4; k++)
            sum += ((2 * y + k / 2) * 2 * SIZE * 3 + (2 * x + k % 2) * 3 + c) % 251;
        assert_float_equal(crops[0][i], (float)sum / 1020, 1e-6f); /* twice the side is all of it */
        assert_float_equal(crops[1][i], crops[0][i], 0);
    }
}

/* A data set of one-coloured pictures, the first `bad` of which cannot be read. */
typedef struct patchy {
    zn_dataset set;
    int bad;
} patchy;

static zn_status patchy_read(const zn_dataset *d, int64_t index, zn_image **out)
{
    if (index < ((const patchy *)d)->bad)
        return ZN_FAIL(ZN_EFORMAT, "picture %d is broken", (int)index);
    const zn_status status = zn_image_new(SIZE, SIZE, 8, out);
    for (int i = 0; status == ZN_OK && i < 3 * SIZE * SIZE; i++)
        ((uint8_t *)(*out)->pixels)[i] = (uint8_t)index;
    return status;
}

static patchy new_patchy(int bad)
{
    static char name[] = "picture", *names[PICTURES] = { name, name, name, name, name, name, name };
    static const zn_dataset_kind kind = { .name = "patchy", .read = patchy_read };
    return (patchy){ .set = { .kind = &kind, .names = names, .count = PICTURES }, .bad = bad };
}

enum { STEPS = 8, PLACES = STEPS * BATCH };

static void count_skipped(void *user, int64_t picture, const char *why)
{
    char text[64];
    snprintf(text, sizeof text, "picture %d is broken", (int)picture);
    assert_string_equal(why, text);
    ((int *)user)[picture]++;
}

/* The numbers of the pictures from step `first` on, of a slice of each batch; how often each was told as skipped. */
static void numbers(int bad, int threads, int first, int slice, int slices, int *found, int told[PICTURES])
{
    patchy p = new_patchy(bad);
    zn_loader *l;
    float batch[BATCH * SIZE * SIZE * 3];
    const int count = BATCH / slices;
    const zn_loader_options o = { .batch = BATCH,
                                  .first = slice * count,
                                  .count = count,
                                  .crop.size = SIZE,
                                  .seed = 5,
                                  .threads = threads,
                                  .ahead = 2,
                                  .skip = { count_skipped, told } };
    assert_int_equal(zn_loader_new(&p.set, &o, &l), ZN_OK);
    for (int step = first; step < STEPS; step++) {
        assert_int_equal(zn_loader_next(l, step, NULL, batch), ZN_OK);
        for (int i = 0; i < count; i++)
            found[step * BATCH + o.first + i] = (int)(255 * batch[i * SIZE * SIZE * 3] + 0.5f);
    }
    zn_loader_free(l);
}

/* What cannot be read gives its place to the next readable picture of its epoch; all others stay where they were. */
static void broken_pictures_give_their_places_away(void **state)
{
    (void)state;
    int whole[PLACES], found[PLACES], again[PLACES], told[PICTURES] = { 0 }, more[PICTURES] = { 0 };
    numbers(0, 1, 0, 0, 1, whole, told);
    for (int i = 0; i < PICTURES; i++)
        assert_int_equal(told[i], 0);
    numbers(2, 1, 0, 0, 1, found, told);
    for (int i = 0; i < PLACES / PICTURES * PICTURES; i++) {
        int next = i;
        while (whole[next] < 2)
            next = next % PICTURES == PICTURES - 1 ? next - PICTURES + 1 : next + 1;
        assert_int_equal(found[i], whole[next]);
    }
    assert_true(told[0] > 0 && told[1] > 0 && told[2] == 0);
    numbers(2, 3, 0, 0, 1, again, more);
    assert_memory_equal(found, again, sizeof found);
    assert_memory_equal(told, more, sizeof told); /* though the threads worked ahead */
    for (int slice = 0; slice < BATCH; slice++)
        numbers(2, 2, 0, slice, BATCH, again, more);
    assert_memory_equal(found, again, sizeof found);
    again[PLACES - 1] = -1;
    numbers(2, 1, STEPS - 2, 0, 1, again, more);
    assert_memory_equal(found, again, sizeof found);
}

static void some_picture_must_be_readable(void **state)
{
    (void)state;
    patchy p = new_patchy(PICTURES);
    zn_loader *l;
    float batch[BATCH * SIZE * SIZE * 3];
    assert_int_equal(zn_loader_new(&p.set, &(zn_loader_options){ .batch = BATCH, .crop.size = SIZE }, &l), ZN_OK);
    assert_int_equal(zn_loader_next(l, 0, NULL, batch), ZN_EFORMAT);
    assert_non_null(strstr(zn_error_text(), "none of the 7 images"));
    zn_loader_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_made_ahead),        cmocka_unit_test(waiting_is_counted),
        cmocka_unit_test(halved_crops_are_means),        cmocka_unit_test(broken_pictures_give_their_places_away),
        cmocka_unit_test(some_picture_must_be_readable),
    };
    return cmocka_run_group_tests_name("loader", tests, NULL, NULL);
}
