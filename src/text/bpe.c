/* The merge loop: a list of tokens and a heap of the pairs that can be merged. So even a piece of a million letters
 * takes n log n steps. */
#include "text/bpe.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "text/bpe_tables.h"

enum { NONE = -1 };

typedef struct node { /* a token of the piece; id is NONE after it was merged into the previous one */
    int32_t id;
    uint32_t before, behind;
} node;

typedef struct candidate { /* order: rank, then position */
    uint64_t order;
    uint64_t pair;
    int32_t id;
} candidate;

typedef struct heap {
    candidate *items;
    size_t count;
} heap;

zn_status zn_tokens_add(zn_tokens *t, int32_t id)
{
    if (!ZN_GROW(t->ids, t->capacity, t->count + 1))
        return ZN_FAIL(ZN_ENOMEM, "out of memory: %zu tokens", t->count + 1);
    t->ids[t->count++] = id;
    return ZN_OK;
}

static const zn_bpe_merge_entry *find(const zn_bpe *b, uint64_t pair)
{
    size_t low = 0, high = b->merge_count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (b->merges[middle].pair < pair)
            low = middle + 1;
        else
            high = middle;
    }
    return low < b->merge_count && b->merges[low].pair == pair ? &b->merges[low] : NULL;
}

static void push(heap *h, candidate c)
{
    size_t i = h->count++;
    for (; i > 0 && h->items[(i - 1) / 2].order > c.order; i = (i - 1) / 2)
        h->items[i] = h->items[(i - 1) / 2];
    h->items[i] = c;
}

static candidate pop(heap *h)
{
    const candidate top = h->items[0], last = h->items[--h->count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < h->count; i = child) {
        child += child + 1 < h->count && h->items[child + 1].order < h->items[child].order;
        if (last.order <= h->items[child].order)
            break;
        h->items[i] = h->items[child];
    }
    h->items[i] = last;
    return top;
}

/* Pushes the pair that begins at `at` if it is in the merge list. */
static void consider(const zn_bpe *b, heap *h, const node *nodes, uint32_t at, uint32_t size)
{
    const uint32_t next = nodes[at].behind;
    if (next >= size)
        return;
    const uint64_t pair = zn_bpe_pair(nodes[at].id, nodes[next].id);
    const zn_bpe_merge_entry *m = find(b, pair);
    if (m)
        push(h, (candidate){ (uint64_t)m->rank << 32 | at, pair, m->id });
}

static void join(const zn_bpe *b, heap *h, node *nodes, uint32_t size)
{
    while (h->count) {
        const candidate c = pop(h);
        const uint32_t at = (uint32_t)c.order, next = nodes[at].behind;
        /* The heap entry may be outdated: one of its tokens may have been merged with another since. */
        if (nodes[at].id == NONE || next >= size || zn_bpe_pair(nodes[at].id, nodes[next].id) != c.pair)
            continue;
        nodes[at].id = c.id;
        nodes[at].behind = nodes[next].behind;
        nodes[next].id = NONE;
        if (nodes[at].behind < size)
            nodes[nodes[at].behind].before = at;
        consider(b, h, nodes, at, size);
        if (at > 0)
            consider(b, h, nodes, nodes[at].before, size);
    }
}

/* Capacity of the heap: initially one pair for each two neighbours, and two more after each merge. */
static zn_status reserve(zn_bpe_work *w, size_t size)
{
    const size_t bytes = size * (3 * sizeof(candidate) + sizeof(node));
    if (bytes <= w->capacity)
        return ZN_OK;
    zn_free(w->memory);
    w->memory = NULL;
    w->capacity = 0;
    ZN_TRY(zn_alloc_for("a piece of text", 2 * bytes, &w->memory));
    w->capacity = 2 * bytes;
    return ZN_OK;
}

zn_status zn_bpe_encode(const zn_bpe *b, zn_bpe_work *work, const uint8_t *piece, size_t size, zn_tokens *out)
{
    if (size == 0)
        return ZN_OK;
    if (size > UINT32_MAX / 256)
        return ZN_FAIL(ZN_ELIMIT, "a piece of text is too long: %zu bytes", size);
    ZN_TRY(reserve(work, size));
    heap h = { work->memory, 0 };
    node *nodes = (node *)(h.items + 3 * size);
    for (uint32_t i = 0; i < size; i++)
        nodes[i] = (node){ b->byte_ids[piece[i]], i ? i - 1 : 0, i + 1 };
    for (uint32_t i = 0; i < size; i++)
        consider(b, &h, nodes, i, (uint32_t)size);
    join(b, &h, nodes, (uint32_t)size);
    for (uint32_t i = 0; i < size; i = nodes[i].behind)
        ZN_TRY(zn_tokens_add(out, nodes[i].id));
    return ZN_OK;
}
