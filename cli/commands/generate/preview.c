/* Previews in a file. */
#include "commands/generate/preview.h"

#include "ui/report.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct preview_file {
    const char *path;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool has_thread, ends;
    zn_image *next; /* to be written, or NULL */
    char *why;      /* the first failure, or NULL */
};

static void write_to(preview_file *f, const zn_image *image)
{
    const zn_image_write_options writing = { .threads = 1 }; /* the others take steps */
    if (zn_image_write(f->path, image, &writing) != ZN_OK && !f->why)
        f->why = must_copy(zn_error_text());
}

static void *write_all(void *self)
{
    preview_file *f = self;
    pthread_mutex_lock(&f->lock);
    while (f->next || !f->ends) {
        zn_image *image = f->next;
        f->next = NULL;
        if (!image) {
            pthread_cond_wait(&f->changed, &f->lock);
            continue;
        }
        pthread_mutex_unlock(&f->lock);
        write_to(f, image);
        zn_image_free(image);
        pthread_mutex_lock(&f->lock);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

preview_file *preview_open(const char *path)
{
    preview_file *f = must_alloc(NULL, sizeof *f);
    *f = (preview_file){ .path = path };
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    f->has_thread = pthread_create(&f->thread, NULL, write_all, f) == 0;
    return f;
}

static zn_image *copy_of(const zn_image *image)
{
    zn_image *copy;
    if (zn_image_new(image->width, image->height, image->bits, &copy) != ZN_OK)
        return NULL;
    memcpy(copy->pixels, image->pixels, (size_t)image->width * (size_t)image->height * 3 * (size_t)(image->bits / 8));
    return copy;
}

void preview_show(preview_file *f, const zn_image *image)
{
    if (!f->has_thread) {
        write_to(f, image);
        return;
    }
    zn_image *copy = copy_of(image);
    if (!copy)
        return;
    pthread_mutex_lock(&f->lock);
    zn_image_free(f->next);
    f->next = copy;
    pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

char *preview_close(preview_file *f)
{
    if (!f)
        return NULL;
    if (f->has_thread) {
        pthread_mutex_lock(&f->lock);
        f->ends = true;
        pthread_cond_signal(&f->changed);
        pthread_mutex_unlock(&f->lock);
        pthread_join(f->thread, NULL);
    }
    char *why = f->why;
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
    free(f);
    return why;
}
