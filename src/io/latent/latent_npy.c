/* Latents as NumPy's .npy: one array and nothing else, so that facts are neither read nor written.
 *
 *     \x93NUMPY | u8 major, minor | u16 (version 1) or u32 n | n bytes of text, padded with spaces | numbers
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (1, 4, 64, 64), }
 *
 * The text is a Python literal. Of all that Python allows, exactly these three keys are read, in any order. */
#include "base/convert.h"
#include "base/fail.h"
#include "base/span.h"
#include "io/latent/latent_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const uint8_t MAGIC[] = { 0x93, 'N', 'U', 'M', 'P', 'Y' };
enum { ALIGNMENT = 64 };

bool zn_is_npy(const uint8_t *bytes, size_t size)
{
    return size >= sizeof MAGIC && !memcmp(bytes, MAGIC, sizeof MAGIC);
}

/* ---- the header's text ---- */

typedef struct text {
    const char *at, *end;
} text;

static void skip_spaces(text *t)
{
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\n'))
        t->at++;
}

static bool take(text *t, char c)
{
    skip_spaces(t);
    if (t->at == t->end || *t->at != c)
        return false;
    t->at++;
    return true;
}

static bool take_word(text *t, const char *word)
{
    const size_t n = strlen(word);
    skip_spaces(t);
    if ((size_t)(t->end - t->at) < n || memcmp(t->at, word, n))
        return false;
    t->at += n;
    return true;
}

/* A string in quotes, of less than `size` bytes. */
static bool take_string(text *t, char *out, size_t size)
{
    skip_spaces(t);
    const char quote = t->at < t->end ? *t->at : 0;
    if ((quote != '\'' && quote != '"') || !take(t, quote))
        return false;
    size_t n = 0;
    while (t->at < t->end && *t->at != quote && n + 1 < size)
        out[n++] = *t->at++;
    out[n] = 0;
    return t->at < t->end && *t->at++ == quote;
}

static bool take_side(text *t, int64_t *side)
{
    skip_spaces(t);
    const char *first = t->at;
    for (*side = 0; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++)
        if (__builtin_mul_overflow(*side, 10, side) || __builtin_add_overflow(*side, *t->at - '0', side))
            return false;
    return t->at > first;
}

/* (2, 3) or (2,) */
static bool take_shape(text *t, zn_weight *array)
{
    if (!take(t, '('))
        return false;
    for (array->rank = 0; !take(t, ')'); array->rank++) {
        if (array->rank == ZN_MAX_RANK || !take_side(t, &array->shape[array->rank]))
            return false;
        if (!take(t, ',')) {
            array->rank++;
            return take(t, ')');
        }
    }
    return true;
}

typedef struct header {
    char descr[16];
    bool fortran;
    zn_weight array;
    bool has_descr, has_order, has_shape;
} header;

static bool take_entry(text *t, header *h)
{
    char key[16];
    if (!take_string(t, key, sizeof key) || !take(t, ':'))
        return false;
    if (!strcmp(key, "descr") && !h->has_descr)
        return h->has_descr = take_string(t, h->descr, sizeof h->descr);
    if (!strcmp(key, "fortran_order") && !h->has_order) {
        h->fortran = take_word(t, "True");
        return h->has_order = h->fortran || take_word(t, "False");
    }
    return !strcmp(key, "shape") && !h->has_shape && (h->has_shape = take_shape(t, &h->array));
}

static bool take_header(text *t, header *h)
{
    if (!take(t, '{'))
        return false;
    while (!take(t, '}')) {
        if (!take_entry(t, h))
            return false;
        if (!take(t, ',')) {
            if (!take(t, '}'))
                return false;
            break;
        }
    }
    skip_spaces(t);
    return t->at == t->end && h->has_descr && h->has_order && h->has_shape;
}

/* ---- reading ---- */

/* The header's text and the numbers after it. */
static zn_status split(const zn_source *s, text *words, text *numbers)
{
    const size_t fixed = sizeof MAGIC + 2;
    const int major = s->size > fixed ? s->bytes[sizeof MAGIC] : 0;
    const size_t width = major == 1 ? 2 : 4;
    if (s->size < fixed + width)
        return ZN_FAIL(ZN_EFORMAT, "%s: the .npy file ends inside its header", s->name);
    if (major < 1 || major > 3)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: version %d of .npy is not supported, only 1 to 3", s->name, major);
    const size_t length = width == 2 ? zn_load16(s->bytes + fixed) : zn_load32(s->bytes + fixed);
    if (!zn_span_fits(fixed + width, length, s->size))
        return ZN_FAIL(ZN_EFORMAT, "%s: the .npy file ends inside its header", s->name);
    const char *bytes = (const char *)s->bytes;
    *words = (text){ bytes + fixed + width, bytes + fixed + width + length };
    *numbers = (text){ words->end, bytes + s->size };
    return ZN_OK;
}

static zn_status check_numbers(const zn_source *s, header *h, const text *numbers)
{
    static const struct {
        const char *descr;
        zn_dtype dtype;
    } kinds[] = { { "<f4", ZN_F32 }, { "<f2", ZN_F16 }, { "<f8", ZN_F64 } };
    zn_weight *t = &h->array;
    size_t count, bytes, kind = 0;
    while (kind < 3 && strcmp(kinds[kind].descr, h->descr))
        kind++;
    if (kind == 3)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: its numbers are '%s'; a latent is '<f4', '<f2' or '<f8' (astype('f4'))",
                       s->name, h->descr);
    t->dtype = kinds[kind].dtype;
    if (h->fortran)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: its array is in Fortran order; save np.ascontiguousarray of it", s->name);
    if (!zn_count_elements(t->shape, t->rank, &count) || !zn_dtype_bytes(t->dtype, count, &bytes))
        return ZN_FAIL(ZN_EFORMAT, "%s: the shape of its array overflows", s->name);
    t->data = numbers->at;
    t->bytes = (size_t)(numbers->end - numbers->at);
    if (t->bytes != bytes)
        return ZN_FAIL(ZN_EFORMAT, "%s: %zu bytes of numbers, but its shape needs %zu", s->name, t->bytes, bytes);
    return ZN_OK;
}

zn_status zn_latent_npy_read(const zn_source *source, int64_t index, int64_t *count, zn_latent **out)
{
    text words = { 0 }, numbers = { 0 };
    header h = { .array.name = "array" };
    ZN_TRY(split(source, &words, &numbers));
    if (!take_header(&words, &h))
        return ZN_FAIL(ZN_EFORMAT, "%s: the header of the .npy file is not {'descr', 'fortran_order', 'shape'}",
                       source->name);
    ZN_TRY(check_numbers(source, &h, &numbers));
    return zn_latent_from_tensor(&h.array, source->name, index, count, out);
}

/* ---- writing ---- */

zn_status zn_latent_npy_write(const zn_latent *const *latents, int64_t count, const char *path)
{
    zn_weight t = { 0 };
    uint8_t bytes[4 * ALIGNMENT];
    char *words = (char *)bytes + sizeof MAGIC + 4;
    zn_latent_tensor_shape(latents[0], count, &t);
    int n = snprintf(words, ALIGNMENT, "{'descr': '<f4', 'fortran_order': False, 'shape': (");
    for (int i = 0; i < t.rank; i++)
        n += snprintf(words + n, ALIGNMENT / 2, "%" PRId64 "%s", t.shape[i], i + 1 < t.rank ? ", " : "), }");
    const size_t used = sizeof MAGIC + 4 + (size_t)n + 1, size = (used + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    const size_t length = size - sizeof MAGIC - 4;
    memset(words + n, ' ', length - (size_t)n);
    bytes[size - 1] = '\n';
    memcpy(bytes, MAGIC, sizeof MAGIC);
    memcpy(bytes + sizeof MAGIC, (const uint8_t[]){ 1, 0, (uint8_t)(length & 255), (uint8_t)(length >> 8) }, 4);
    zn_outfile file;
    ZN_TRY(zn_outfile_open(&file, path));
    zn_outfile_write(&file, bytes, size);
    return zn_latent_commit_planes(&file, latents, count);
}
