/* The pickle machine: reading operands, the stack with its marks, and the loop over opcodes (which are in opcodes.c).
 */
#include "io/weights/unpickler.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/span.h"

#include <string.h>

enum { MAX_BLOCKS = 1 << 24, OP_PROTO = 0x80, OP_STOP = '.' };

zn_status zn_unpickler_broken(const zn_unpickler *m, const char *what)
{
    return ZN_FAIL(ZN_EFORMAT, "%s: pickle: %s at byte %zu", m->name, what, m->op_at);
}

static zn_status no_memory(const zn_unpickler *m)
{
    return ZN_FAIL(ZN_ENOMEM, "out of memory: reading the pickle of %s at byte %zu", m->name, m->op_at);
}

zn_status zn_unpickler_grow(const zn_unpickler *m, zn_stack *s, size_t count, size_t size)
{
    return zn_grow(&s->items, &s->capacity, count, size) ? ZN_OK : no_memory(m);
}

zn_status zn_unpickler_take(zn_unpickler *m, size_t count, const uint8_t **bytes)
{
    if (m->size - m->at < count)
        return zn_unpickler_broken(m, "the pickle is cut off in an opcode");
    *bytes = m->bytes + m->at;
    m->at += count;
    return ZN_OK;
}

zn_status zn_unpickler_take_counted(zn_unpickler *m, size_t width, const uint8_t **bytes, size_t *count)
{
    const uint8_t *p = NULL;
    ZN_TRY(zn_unpickler_take(m, width, &p));
    const uint64_t n = width == 1 ? *p : width == 4 ? zn_load32(p) : zn_load64(p);
    if (n > m->size - m->at || n > UINT32_MAX)
        return zn_unpickler_broken(m, "a string is longer than the pickle");
    *count = (size_t)n;
    return zn_unpickler_take(m, (size_t)n, bytes);
}

zn_status zn_unpickler_take_line(zn_unpickler *m, const char **text, uint32_t *count)
{
    const uint8_t *start = m->bytes + m->at, *end = memchr(start, '\n', m->size - m->at);
    if (!end || end - start > UINT16_MAX)
        return zn_unpickler_broken(m, "a name has no end");
    *text = (const char *)start;
    *count = (uint32_t)(end - start);
    m->at += *count + 1;
    return ZN_OK;
}

size_t zn_unpickler_floor(const zn_unpickler *m)
{
    return m->marks.count ? ((size_t *)m->marks.items)[m->marks.count - 1] : 0;
}

zn_status zn_unpickler_push(zn_unpickler *m, const zn_pickle *value)
{
    ZN_TRY(zn_unpickler_grow(m, &m->stack, m->stack.count + 1, sizeof value));
    ((const zn_pickle **)m->stack.items)[m->stack.count++] = value;
    return ZN_OK;
}

zn_status zn_unpickler_pop(zn_unpickler *m, const zn_pickle **value)
{
    if (m->stack.count <= zn_unpickler_floor(m))
        return zn_unpickler_broken(m, "the stack is empty");
    *value = ((const zn_pickle **)m->stack.items)[--m->stack.count];
    return ZN_OK;
}

zn_status zn_unpickler_pop_many(zn_unpickler *m, size_t count, const zn_pickle ***values)
{
    if (m->stack.count - zn_unpickler_floor(m) < count)
        return zn_unpickler_broken(m, "the stack is empty");
    m->stack.count -= count;
    *values = (const zn_pickle **)m->stack.items + m->stack.count;
    return ZN_OK;
}

zn_status zn_unpickler_pop_mark(zn_unpickler *m, const zn_pickle ***values, size_t *count)
{
    if (m->marks.count == 0)
        return zn_unpickler_broken(m, "no mark on the stack");
    const size_t height = zn_unpickler_floor(m);
    m->marks.count--;
    *values = (const zn_pickle **)m->stack.items + height;
    *count = m->stack.count - height;
    m->stack.count = height;
    return ZN_OK;
}

zn_status zn_unpickler_top(zn_unpickler *m, zn_pickle **value)
{
    const zn_pickle *v = NULL;
    ZN_TRY(zn_unpickler_pop(m, &v));
    m->stack.count++;
    *value = (zn_pickle *)v; /* only lists and dictionaries are changed, and those are ours */
    return ZN_OK;
}

zn_status zn_unpickler_alloc(zn_unpickler *m, size_t bytes, void **out)
{
    if (++m->blocks > MAX_BLOCKS)
        return ZN_FAIL(ZN_ELIMIT, "%s: pickle: more than %d values", m->name, MAX_BLOCKS);
    *out = zn_arena_alloc(m->arena, bytes);
    return *out ? ZN_OK : no_memory(m);
}

zn_status zn_unpickler_new(zn_unpickler *m, zn_pickle_kind kind, zn_pickle **value)
{
    void *block = NULL;
    ZN_TRY(zn_unpickler_alloc(m, sizeof **value, &block));
    *value = block;
    (*value)->kind = (uint8_t)kind;
    return ZN_OK;
}

zn_status zn_unpickler_push_new(zn_unpickler *m, zn_pickle_kind kind, zn_pickle **value)
{
    ZN_TRY(zn_unpickler_new(m, kind, value));
    return zn_unpickler_push(m, *value);
}

static zn_status run(zn_unpickler *m, const zn_pickle **root)
{
    if (m->size == 0 || m->bytes[0] != OP_PROTO)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: pickle of protocol 0 or 1, or no pickle; 2 to 5 are read", m->name);
    ZN_TRY(zn_unpickler_grow(m, &m->stack, 64, sizeof(void *)));
    while (m->at < m->size) {
        m->op_at = m->at;
        const int op = m->bytes[m->at++];
        if (op == OP_STOP)
            return zn_unpickler_pop(m, root);
        if (!zn_opcodes[op])
            return ZN_FAIL(ZN_EFORMAT, "%s: pickle: unknown opcode 0x%02x at byte %zu", m->name, (unsigned)op,
                           m->op_at);
        ZN_TRY(zn_opcodes[op](m, op));
    }
    m->op_at = m->at;
    return zn_unpickler_broken(m, "the pickle is cut off");
}

zn_status zn_pickle_read(zn_arena *arena, const uint8_t *bytes, size_t size, const char *name, const zn_pickle **root)
{
    zn_unpickler m = { .bytes = bytes, .size = size, .name = name, .arena = arena };
    const zn_status status = run(&m, root);
    zn_free(m.stack.items);
    zn_free(m.marks.items);
    zn_free(m.memo.items);
    return status;
}

const zn_pickle *zn_pickle_item(const zn_pickle *value, size_t index)
{
    if (!value)
        return NULL;
    if (value->kind == ZN_PICKLE_TUPLE)
        return index < value->count ? value->a.items[index] : NULL;
    if (value->kind != ZN_PICKLE_LIST)
        return NULL;
    for (const zn_pickle_chunk *c = value->a.first; c; c = c->next) {
        if (index < c->count)
            return c->values[index];
        index -= c->count;
    }
    return NULL;
}
