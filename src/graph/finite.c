/* An exponent of all ones means NaN or infinity; see finite.h. The tests use the bits because the compiler vectorises
 * these loops. */
#include "graph/finite.h"

#include "graph/types.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { GRAIN = 1 << 16 }; /* values at a time */

typedef struct search {
    const zn_node *n;
    atomic_bool *found; /* a value that is not finite */
} search;

static bool has_bad_short(const uint16_t *values, int64_t count, unsigned exponent)
{
    unsigned bad = 0;
    for (int64_t i = 0; i < count; i++)
        bad |= (values[i] & exponent) == exponent;
    return bad;
}

static bool has_bad_float(const float *values, int64_t count)
{
    const uint32_t exponent = 0x7f800000u;
    uint32_t bad = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, values + i, sizeof bits);
        bad |= (bits & exponent) == exponent;
    }
    return bad;
}

static void look(const void *args, zn_range r)
{
    const search *s = args;
    const int64_t count = r.end - r.begin;
    const bool bad = s->n->type == ZN_TYPE_F32 ? has_bad_float(s->n->data + r.begin, count)
                                               : has_bad_short((const uint16_t *)s->n->data + r.begin, count,
                                                               s->n->type == ZN_TYPE_BF16 ? 0x7f80u : 0x7c00u);
    if (bad)
        atomic_store(s->found, true);
}

/* A number that is not finite makes the scale of its row so, or is the code of NaN. */
static bool has_bad_code(const zn_node *n)
{
    const uint8_t *codes = (const uint8_t *)n->data;
    const float *scales = n->op->tail ? zn_node_tail(n) : NULL;
    bool bad = false;
    for (int64_t i = 0; i < zn_shape_count(n->shape); i++)
        bad |= (codes[i] & 0x7f) == 0x7f;
    for (int64_t i = 0; scales && i < n->op->tail(n); i++)
        bad |= !isfinite(scales[i]);
    return bad;
}

bool zn_node_is_finite(const zn_node *n, zn_pool *pool)
{
    if (n->type == ZN_TYPE_E4M3)
        return !has_bad_code(n);
    atomic_bool found = false;
    zn_pool_run(pool, zn_shape_count(n->shape), GRAIN, look, &(search){ n, &found }, NULL, 0);
    return !found;
}
