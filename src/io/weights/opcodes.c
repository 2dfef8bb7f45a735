/* The opcodes of the pickle machine, protocols 2 to 5; those that make objects are in opcodes_objects.c. Every opcode
 * is at least one byte long and makes at most one value of fixed size beside room for the values it takes off the
 * stack, so memory is bounded by the length of the pickle. */
#include "base/fail.h"
#include "base/span.h"
#include "io/weights/unpickler.h"

#include <string.h>

static const zn_pickle none = { .kind = ZN_PICKLE_NONE };
static const zn_pickle truth[2] = { { .kind = ZN_PICKLE_BOOL }, { .kind = ZN_PICKLE_BOOL, .a.integer = 1 } };

static zn_status append(zn_unpickler *m, zn_pickle *container, const zn_pickle **values, size_t count)
{
    if (container->kind == ZN_PICKLE_OPAQUE || container->kind == ZN_PICKLE_TENSOR)
        return ZN_OK;
    if (container->kind != ZN_PICKLE_LIST && container->kind != ZN_PICKLE_DICT)
        return zn_unpickler_broken(m, "items for something that is no list or dictionary");
    if (count == 0)
        return ZN_OK;
    void *block = NULL;
    ZN_TRY(zn_unpickler_alloc(m, sizeof(zn_pickle_chunk) + count * sizeof *values, &block));
    zn_pickle_chunk *c = block;
    memcpy(c->values, values, count * sizeof *values);
    c->count = count;
    if (container->b.last)
        container->b.last->next = c;
    else
        container->a.first = c;
    container->b.last = c;
    return ZN_OK;
}

static zn_status op_proto(zn_unpickler *m, int op)
{
    (void)op;
    const uint8_t *p = NULL;
    ZN_TRY(zn_unpickler_take(m, 1, &p));
    if (*p < 2 || *p > 5)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: pickle protocol %d; 2 to 5 are read", m->name, *p);
    return ZN_OK;
}

static zn_status op_frame(zn_unpickler *m, int op)
{
    (void)op;
    const uint8_t *p = NULL;
    ZN_TRY(zn_unpickler_take(m, 8, &p));
    return zn_load64(p) > m->size - m->at ? zn_unpickler_broken(m, "a frame is longer than the pickle") : ZN_OK;
}

static zn_status op_constant(zn_unpickler *m, int op)
{
    return zn_unpickler_push(m, op == 'N' ? &none : &truth[op == 0x88]);
}

static zn_status op_integer(zn_unpickler *m, int op)
{
    const uint8_t *p = NULL;
    zn_pickle *v = NULL;
    ZN_TRY(zn_unpickler_take(m, op == 'K' ? 1 : op == 'M' ? 2 : 4, &p));
    ZN_TRY(zn_unpickler_push_new(m, ZN_PICKLE_INT, &v));
    v->a.integer = op == 'K' ? *p : op == 'M' ? zn_load16(p) : (int32_t)zn_load32(p);
    return ZN_OK;
}

/* Two's complement of any length. */
static zn_status op_long(zn_unpickler *m, int op)
{
    const uint8_t *p = NULL;
    size_t n = 0;
    zn_pickle *v = NULL;
    ZN_TRY(zn_unpickler_take_counted(m, op == 0x8a ? 1 : 4, &p, &n));
    if (n > 8)
        return zn_unpickler_push(m, &zn_pickle_opaque);
    uint64_t bits = n && p[n - 1] & 0x80 ? UINT64_MAX : 0;
    memcpy(&bits, p, n);
    ZN_TRY(zn_unpickler_push_new(m, ZN_PICKLE_INT, &v));
    v->a.integer = (int64_t)bits;
    return ZN_OK;
}

static zn_status op_float(zn_unpickler *m, int op)
{
    (void)op;
    const uint8_t *p = NULL;
    ZN_TRY(zn_unpickler_take(m, 8, &p));
    return zn_unpickler_push(m, &zn_pickle_opaque);
}

static zn_status op_text(zn_unpickler *m, int op)
{
    const uint8_t *p = NULL;
    size_t n = 0;
    zn_pickle *v = NULL;
    ZN_TRY(zn_unpickler_take_counted(m, op == 'U' || op == 0x8c ? 1 : op == 0x8d ? 8 : 4, &p, &n));
    ZN_TRY(zn_unpickler_push_new(m, ZN_PICKLE_TEXT, &v));
    v->a.text = (const char *)p;
    v->count = (uint32_t)n;
    return ZN_OK;
}

static zn_status op_bytes(zn_unpickler *m, int op)
{
    const uint8_t *p = NULL;
    size_t n = 0;
    ZN_TRY(zn_unpickler_take_counted(m, op == 'C' ? 1 : op == 'B' ? 4 : 8, &p, &n));
    return zn_unpickler_push(m, &zn_pickle_opaque);
}

static zn_status op_mark(zn_unpickler *m, int op)
{
    (void)op;
    ZN_TRY(zn_unpickler_grow(m, &m->marks, m->marks.count + 1, sizeof(size_t)));
    ((size_t *)m->marks.items)[m->marks.count++] = m->stack.count;
    return ZN_OK;
}

static zn_status op_pop(zn_unpickler *m, int op)
{
    const zn_pickle *v = NULL, **values = NULL;
    size_t count = 0;
    if (op == '1' || (m->marks.count && m->stack.count == zn_unpickler_floor(m)))
        return zn_unpickler_pop_mark(m, &values, &count);
    return zn_unpickler_pop(m, &v);
}

static zn_status op_dup(zn_unpickler *m, int op)
{
    (void)op;
    zn_pickle *v = NULL;
    ZN_TRY(zn_unpickler_top(m, &v));
    return zn_unpickler_push(m, v);
}

static zn_status memo_index(zn_unpickler *m, int op, size_t *index)
{
    const uint8_t *p = NULL;
    if (op == 0x94) {
        *index = m->memo.count;
        return ZN_OK;
    }
    const int wide = op == 'j' || op == 'r';
    ZN_TRY(zn_unpickler_take(m, wide ? 4 : 1, &p));
    *index = wide ? zn_load32(p) : *p;
    return ZN_OK;
}

static zn_status op_get(zn_unpickler *m, int op)
{
    size_t i = 0;
    ZN_TRY(memo_index(m, op, &i));
    if (i >= m->memo.count || !((const zn_pickle **)m->memo.items)[i])
        return zn_unpickler_broken(m, "a memo entry that was never set is read");
    return zn_unpickler_push(m, ((const zn_pickle **)m->memo.items)[i]);
}

static zn_status op_put(zn_unpickler *m, int op)
{
    size_t i = 0;
    zn_pickle *v = NULL;
    ZN_TRY(memo_index(m, op, &i));
    ZN_TRY(zn_unpickler_top(m, &v));
    if (i >= m->size)
        return zn_unpickler_broken(m, "a memo index is larger than the pickle");
    ZN_TRY(zn_unpickler_grow(m, &m->memo, i + 1, sizeof v));
    const zn_pickle **memo = m->memo.items;
    for (; m->memo.count <= i; m->memo.count++)
        memo[m->memo.count] = NULL;
    memo[i] = v;
    return ZN_OK;
}

static zn_status op_empty(zn_unpickler *m, int op)
{
    zn_pickle *v = NULL;
    if (op == 0x8f)
        return zn_unpickler_push(m, &zn_pickle_opaque);
    return zn_unpickler_push_new(m, op == ')' ? ZN_PICKLE_TUPLE : op == ']' ? ZN_PICKLE_LIST : ZN_PICKLE_DICT, &v);
}

/* All values above the last mark, or, where the opcode has no mark, `count` of them. */
static zn_status pop_values(zn_unpickler *m, bool marked, const zn_pickle ***values, size_t *count)
{
    return marked ? zn_unpickler_pop_mark(m, values, count) : zn_unpickler_pop_many(m, *count, values);
}

static zn_status op_tuple(zn_unpickler *m, int op)
{
    const zn_pickle **values = NULL;
    size_t count = (size_t)(op - 0x85 + 1);
    void *items = NULL;
    zn_pickle *v = NULL;
    ZN_TRY(pop_values(m, op == 't', &values, &count));
    ZN_TRY(zn_unpickler_alloc(m, count * sizeof *values, &items));
    memcpy(items, values, count * sizeof *values);
    ZN_TRY(zn_unpickler_push_new(m, ZN_PICKLE_TUPLE, &v));
    v->a.items = items;
    v->count = (uint32_t)count;
    return ZN_OK;
}

static zn_status op_append(zn_unpickler *m, int op)
{
    const zn_pickle **values = NULL;
    size_t count = 1;
    zn_pickle *container = NULL;
    ZN_TRY(pop_values(m, op != 'a', &values, &count));
    ZN_TRY(zn_unpickler_top(m, &container));
    if (container->kind == ZN_PICKLE_DICT)
        return zn_unpickler_broken(m, "list items for a dictionary");
    return append(m, container, values, count);
}

static zn_status op_set(zn_unpickler *m, int op)
{
    const zn_pickle **values = NULL;
    size_t count = 2;
    zn_pickle *container = NULL;
    ZN_TRY(pop_values(m, op != 's', &values, &count));
    ZN_TRY(zn_unpickler_top(m, &container));
    if (container->kind == ZN_PICKLE_LIST || count % 2)
        return zn_unpickler_broken(m, "keys and values that are no pairs, or for a list");
    return append(m, container, values, count);
}

static zn_status op_frozenset(zn_unpickler *m, int op)
{
    (void)op;
    const zn_pickle **values = NULL;
    size_t count = 0;
    ZN_TRY(zn_unpickler_pop_mark(m, &values, &count));
    return zn_unpickler_push(m, &zn_pickle_opaque);
}

/* Known opcodes of protocols 0 and 1, extension registries and out-of-band buffers: no checkpoint has them. */
static zn_status op_unsupported(zn_unpickler *m, int op)
{
    return ZN_FAIL(ZN_EUNSUPPORTED, "%s: pickle: opcode 0x%02x at byte %zu is not supported", m->name, (unsigned)op,
                   m->op_at);
}

/* A line for each function. */
/* clang-format off */
const zn_opcode zn_opcodes[256] = {
    [0x80] = op_proto,
    [0x95] = op_frame,
    ['N'] = op_constant, [0x88] = op_constant, [0x89] = op_constant,
    ['K'] = op_integer, ['M'] = op_integer, ['J'] = op_integer,
    [0x8a] = op_long, [0x8b] = op_long,
    ['G'] = op_float,
    ['X'] = op_text, [0x8c] = op_text, [0x8d] = op_text, ['T'] = op_text, ['U'] = op_text,
    ['B'] = op_bytes, ['C'] = op_bytes, [0x8e] = op_bytes, [0x96] = op_bytes,
    ['('] = op_mark,
    ['0'] = op_pop, ['1'] = op_pop,
    ['2'] = op_dup,
    ['h'] = op_get, ['j'] = op_get,
    ['q'] = op_put, ['r'] = op_put, [0x94] = op_put,
    [')'] = op_empty, [']'] = op_empty, ['}'] = op_empty, [0x8f] = op_empty,
    ['t'] = op_tuple, [0x85] = op_tuple, [0x86] = op_tuple, [0x87] = op_tuple,
    ['a'] = op_append, ['e'] = op_append, [0x90] = op_append,
    ['s'] = op_set, ['u'] = op_set,
    [0x91] = op_frozenset,
    ['c'] = zn_opcode_global, [0x93] = zn_opcode_global,
    ['R'] = zn_opcode_call, [0x81] = zn_opcode_call, [0x92] = zn_opcode_call,
    ['b'] = zn_opcode_build,
    ['Q'] = zn_opcode_persistent,
    ['I'] = op_unsupported, ['L'] = op_unsupported, ['F'] = op_unsupported, ['S'] = op_unsupported,
    ['V'] = op_unsupported, ['P'] = op_unsupported, ['g'] = op_unsupported, ['p'] = op_unsupported,
    ['i'] = op_unsupported, ['o'] = op_unsupported, ['d'] = op_unsupported, ['l'] = op_unsupported,
    [0x82] = op_unsupported, [0x83] = op_unsupported, [0x84] = op_unsupported, [0x97] = op_unsupported,
    [0x98] = op_unsupported,
};
/* clang-format on */
