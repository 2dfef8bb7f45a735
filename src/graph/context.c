/* Contexts: a thread pool, a device and a cache of packed weights, with a reference count. */
#include "graph/context.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MOST_DEVICES = 16 };

struct zn_context {
    pthread_mutex_t lock; /* protects users and devices */
    int users;
    zn_pool *pool;
    struct {
        zn_device *device;
        char name[16];
    } devices[MOST_DEVICES]; /* opened so far */
    int device_count;
    zn_pack_cache *packs;
};

zn_status zn_context_new(int threads, zn_context **out)
{
    *out = NULL;
    if (threads < 0)
        return ZN_FAIL(ZN_EINVALID, "%d threads: 0 (one for each CPU) to 1024", threads);
    zn_context *c = zn_calloc(1, sizeof *c);
    if (!c)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a context");
    pthread_mutex_init(&c->lock, NULL);
    c->users = 1;
    zn_status status = zn_pool_new(threads, &c->pool);
    if (status == ZN_OK)
        status = zn_pack_cache_new(&c->packs);
    if (status != ZN_OK)
        zn_context_free(c);
    else
        *out = c;
    return status;
}

void zn_context_free(zn_context *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    const int left = --c->users;
    pthread_mutex_unlock(&c->lock);
    if (left)
        return;
    for (int i = 0; i < c->device_count; i++)
        zn_device_close(c->devices[i].device);
    zn_pack_cache_free(c->packs);
    zn_pool_free(c->pool);
    pthread_mutex_destroy(&c->lock);
    zn_free(c);
}

zn_status zn_context_borrow(zn_context *given, int threads, zn_context **out)
{
    *out = given;
    if (!given)
        return zn_context_new(threads, out);
    pthread_mutex_lock(&given->lock);
    given->users++;
    pthread_mutex_unlock(&given->lock);
    return ZN_OK;
}

int zn_context_threads(const zn_context *c) { return zn_pool_threads(c->pool); }
size_t zn_context_packed_bytes(const zn_context *c) { return zn_pack_cache_bytes(c->packs); }

zn_pool *zn_context_pool(const zn_context *c) { return c->pool; }
zn_pack_cache *zn_context_packs(const zn_context *c) { return c->packs; }

/* Finds or opens the device; the caller holds the lock. */
static zn_status find_device(zn_context *c, const char *name, zn_device **out)
{
    for (int i = 0; name && i < c->device_count; i++)
        if (strcmp(c->devices[i].name, name) == 0) {
            *out = c->devices[i].device;
            return ZN_OK;
        }
    if (c->device_count == MOST_DEVICES)
        return ZN_FAIL(ZN_EUNSUPPORTED, "a context has at most %d devices", MOST_DEVICES);
    ZN_TRY(zn_device_open(name, out));
    if (*out) {
        c->devices[c->device_count].device = *out;
        snprintf(c->devices[c->device_count++].name, sizeof c->devices->name, "%s", name);
    }
    return ZN_OK;
}

zn_status zn_context_device(zn_context *c, const char *name, zn_device **out)
{
    *out = NULL;
    pthread_mutex_lock(&c->lock);
    const zn_status status = find_device(c, name && strcmp(name, "cuda") == 0 ? "cuda:0" : name, out);
    pthread_mutex_unlock(&c->lock);
    return status;
}

size_t zn_context_overhead(zn_context *c, const char *name)
{
    zn_device *d;
    return zn_context_device(c, name, &d) == ZN_OK && d ? zn_device_overhead(d) : 0;
}
