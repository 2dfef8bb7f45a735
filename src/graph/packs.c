/* The cache of packed weights; see packs.h. The key of an entry is a digest of everything it depends on. */
#include "graph/packs.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/sha256.h"

#include <pthread.h>
#include <string.h>

typedef struct key {
    uint8_t digest[32];
} key;

typedef struct entry {
    struct entry *next;
    int users; /* number of zn_packs that hold it */
    key key;
    size_t size;
    void *packed;
} entry;

struct zn_pack_cache {
    pthread_mutex_t lock;
    entry *entries;
    size_t bytes;
    int64_t made;
};

struct zn_packs {
    zn_pack_cache *cache;
    entry **held;
    size_t count, capacity;
};

zn_status zn_pack_cache_new(zn_pack_cache **out)
{
    *out = zn_calloc(1, sizeof **out);
    if (!*out)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a cache of packed weights");
    pthread_mutex_init(&(*out)->lock, NULL);
    return ZN_OK;
}

void zn_pack_cache_free(zn_pack_cache *c)
{
    if (!c)
        return;
    pthread_mutex_destroy(&c->lock);
    zn_free(c);
}

size_t zn_pack_cache_bytes(zn_pack_cache *c)
{
    pthread_mutex_lock(&c->lock);
    const size_t bytes = c->bytes;
    pthread_mutex_unlock(&c->lock);
    return bytes;
}

int64_t zn_pack_cache_made(zn_pack_cache *c)
{
    pthread_mutex_lock(&c->lock);
    const int64_t made = c->made;
    pthread_mutex_unlock(&c->lock);
    return made;
}

/* ---- keys ---- */

/* A parameter is identified by its address. A node computed from parameters is identified by its op, settings and
 * sources. */
static void add_constant(zn_sha256 *sum, const zn_node *n)
{
    zn_sha256_add(sum, &n->op, sizeof n->op);
    zn_sha256_add(sum, n->shape.dim, sizeof *n->shape.dim * (size_t)n->shape.rank);
    if (n->op->is_leaf) {
        const void *identity = n->data     ? (const void *)n->data
                               : n->packed ? (const void *)n->packed->data
                                           : n->deferred;
        zn_sha256_add(sum, &identity, sizeof identity);
        return;
    }
    zn_sha256_add(sum, n->attribute, n->attribute_size);
    for (int i = 0; i < n->source_count; i++)
        add_constant(sum, n->source[i]);
}

static key key_of(const zn_node *n, const zn_prepare *p, size_t size)
{
    const zn_packing how = n->op->packing(n, p);
    zn_sha256 sum;
    key k;
    zn_sha256_start(&sum);
    zn_sha256_add(&sum, &n->op, sizeof n->op);
    zn_sha256_add(&sum, &how.kernel, sizeof how.kernel);
    zn_sha256_add(&sum, how.geometry, sizeof how.geometry);
    zn_sha256_add(&sum, &size, sizeof size);
    for (int i = 0; i < n->source_count; i++)
        if (how.sources & 1u << i)
            add_constant(&sum, n->source[i]);
    zn_sha256_finish(&sum, k.digest);
    return k;
}

/* ---- packing ---- */

static zn_node *viewed(const zn_node *source)
{
    return source->op->view && source->source_count ? source->source[0] : (zn_node *)source;
}

zn_node *zn_deferred_source(const zn_node *source)
{
    zn_node *n = viewed(source);
    return n->op == &zn_op_parameter && !n->data && n->deferred ? n : NULL;
}

bool zn_is_coded(const zn_node *source)
{
    const zn_node *n = viewed(source);
    return n->op == &zn_op_parameter && n->deferred && n->deferred->read_codes;
}

static zn_status fetch(zn_fetched *f, const zn_node *parameter, bool codes)
{
    const zn_deferred *d = parameter->deferred;
    if (f->of == d && f->codes == codes)
        return ZN_OK;
    zn_free(f->values);
    *f = (zn_fetched){ .codes = codes };
    ZN_TRY(zn_alloc_for("weights", sizeof(float) * (size_t)zn_shape_count(parameter->shape), (void **)&f->values));
    ZN_TRY(codes ? d->read_codes(d, f->values, f->meanings) : d->read(d, f->values));
    f->of = d;
    return ZN_OK;
}

/* Packs the codes themselves, as numbers. */
static zn_status pack_codes(const zn_node *n, const zn_prepare *p, const zn_packing *how, const zn_fetched *f,
                            void *packed)
{
    void *numbers;
    ZN_TRY(zn_alloc_for("packed weights", how->coded, &numbers));
    n->op->pack(n, p, numbers);
    zn_coded_pack(numbers, how->coded, how->type, f->meanings, packed);
    zn_free(numbers);
    return ZN_OK;
}

/* A node has its weights only while they are packed. */
zn_status zn_pack_into(const zn_node *n, const zn_prepare *p, zn_fetched *f, void *packed)
{
    zn_node *weights = NULL, *parameter = NULL;
    const zn_packing how = n->op->packing(n, p);
    zn_status status = ZN_OK;
    for (int i = 0; i < n->source_count && !parameter; i++)
        if (how.sources & 1u << i) {
            weights = n->source[i];
            parameter = zn_deferred_source(weights);
        }
    if (!parameter) {
        n->op->pack(n, p, packed);
        return ZN_OK;
    }
    ZN_TRY(fetch(f, parameter, how.coded > 0));
    parameter->data = f->values;
    weights->data = weights == parameter ? f->values : weights->op->view(weights);
    if (how.coded)
        status = pack_codes(n, p, &how, f, packed);
    else
        n->op->pack(n, p, packed);
    parameter->data = weights->data = NULL;
    return status;
}

/* ---- entries; the cache is locked ---- */

static void release(zn_pack_cache *c, entry *e)
{
    if (--e->users)
        return;
    entry **at = &c->entries;
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    c->bytes -= e->size;
    zn_free(e->packed);
    zn_free(e);
}

static zn_status make_entry(zn_pack_cache *c, const zn_node *n, const zn_prepare *p, size_t size, key k, zn_fetched *f,
                            entry **out)
{
    entry *e = zn_calloc(1, sizeof *e);
    if (!e)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for packed weights");
    zn_status status = zn_alloc_for("packed weights", size, &e->packed);
    if (status == ZN_OK)
        status = zn_pack_into(n, p, f, e->packed);
    if (status != ZN_OK) {
        zn_free(e->packed);
        zn_free(e);
        return status;
    }
    e->key = k;
    e->size = size;
    e->next = c->entries;
    c->entries = *out = e;
    c->bytes += size;
    c->made++;
    return ZN_OK;
}

static bool holds(const zn_packs *packs, const entry *e)
{
    for (size_t i = 0; i < packs->count; i++)
        if (packs->held[i] == e)
            return true;
    return false;
}

static zn_status find_or_make(zn_packs *packs, const zn_node *n, const zn_prepare *p, size_t size, zn_fetched *f,
                              entry **out)
{
    zn_pack_cache *c = packs->cache;
    const key k = key_of(n, p, size);
    if (!ZN_GROW(packs->held, packs->capacity, packs->count + 1))
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a list of packed weights");
    entry *e = c->entries;
    while (e && memcmp(&e->key, &k, sizeof k))
        e = e->next;
    if (!e)
        ZN_TRY(make_entry(c, n, p, size, k, f, &e));
    if (!holds(packs, e)) {
        e->users++;
        packs->held[packs->count++] = e;
    }
    *out = e;
    return ZN_OK;
}

/* ---- what a handle uses ---- */

zn_status zn_packs_new(zn_pack_cache *cache, zn_packs **out)
{
    *out = zn_calloc(1, sizeof **out);
    if (!*out)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a list of packed weights");
    (*out)->cache = cache;
    return ZN_OK;
}

void zn_packs_free(zn_packs *packs)
{
    if (!packs)
        return;
    pthread_mutex_lock(&packs->cache->lock);
    for (size_t i = 0; i < packs->count; i++)
        release(packs->cache, packs->held[i]);
    pthread_mutex_unlock(&packs->cache->lock);
    zn_free(packs->held);
    zn_free(packs);
}

zn_pack_cache *zn_packs_cache(const zn_packs *packs) { return packs->cache; }

/* Packs while holding the lock. Otherwise two handles that start at the same time would pack the same weights twice. */
zn_status zn_packs_get(zn_packs *packs, const zn_node *n, const zn_prepare *p, size_t bytes, zn_fetched *f,
                       const void **packed)
{
    entry *e = NULL;
    pthread_mutex_lock(&packs->cache->lock);
    const zn_status status = find_or_make(packs, n, p, bytes, f, &e);
    pthread_mutex_unlock(&packs->cache->lock);
    if (status == ZN_OK)
        *packed = e->packed;
    return status;
}
