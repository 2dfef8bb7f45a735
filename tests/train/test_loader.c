/* The loader works ahead: with a reader that stands still the batches made before come out without a read, and the
 * time a caller has to wait is counted. The reader obeys the test, so nothing here depends on speed. */
#include "base/alloc.h"
#include "io/dataset/dataset.h"
#include "train/loader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
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
    const zn_loader_options o = { .batch = BATCH, .size = SIZE, .seed = 1, .threads = threads, .ahead = AHEAD };
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
        assert_int_equal(zn_loader_next(l, 0, batch), ZN_OK);
        wait_for_reads((1 + AHEAD) * BATCH);
        for (int step = 1; step <= AHEAD; step++)
            assert_int_equal(zn_loader_next(l, step, batch), ZN_OK); /* would never return if it needed a read */
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
    assert_int_equal(zn_loader_next(l, 0, batch), ZN_OK);
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
    const zn_loader_options o = { .batch = 1, .size = SIZE, .seed = 3, .no_flip = true, .halve = 1 };
    assert_int_equal(zn_loader_new(&d, &o, &l), ZN_OK);
    for (int step = 0; step < 2; step++)
        assert_int_equal(zn_loader_next(l, step, crops[step]), ZN_OK);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_made_ahead),
        cmocka_unit_test(waiting_is_counted),
        cmocka_unit_test(halved_crops_are_means),
    };
    return cmocka_run_group_tests_name("loader", tests, NULL, NULL);
}
