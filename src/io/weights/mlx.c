/* Finds and reads quantised layers of MLX files. */
#include "io/weights/mlx.h"

#include "base/fail.h"
#include "io/weights/reader.h"

#include <inttypes.h>
#include <stdio.h>

enum { MAX_NAME = 1024 };

static const zn_weight *part_of(const zn_weights *w, const char *name, const char *part)
{
    char full[MAX_NAME];
    const int length = snprintf(full, sizeof full, "%s.%s", name, part);
    return length > 0 && length < MAX_NAME ? zn_weights_find(w, full) : NULL;
}

bool zn_mlx_has(const zn_weights *w, const char *name) { return part_of(w, name, "scales") != NULL; }

static bool is_matrix(const zn_weight *t, int64_t rows)
{
    return t && t->rank == 2 && t->shape[0] == rows && t->shape[1] > 0;
}

static bool is_scale(const zn_weight *t) { return t->dtype == ZN_F16 || t->dtype == ZN_BF16 || t->dtype == ZN_F32; }

zn_status zn_mlx_find(const zn_weights *w, const char *name, int64_t columns, zn_mlx *layer)
{
    zn_mlx m = { part_of(w, name, "weight"), part_of(w, name, "scales"), part_of(w, name, "biases"),
                 .columns = columns };
    if (!m.weight || !m.scales || !m.biases)
        return ZN_FAIL(ZN_ENOTFOUND, "%s: layer '%s' has no %s", w->name, name,
                       !m.weight   ? "weight"
                       : !m.scales ? "scales"
                                   : "biases");
    m.rows = m.weight->rank == 2 ? m.weight->shape[0] : 0;
    if (m.weight->dtype != ZN_U32 || !is_matrix(m.weight, m.rows) || !is_matrix(m.scales, m.rows) ||
        !is_matrix(m.biases, m.rows) || m.scales->shape[1] != m.biases->shape[1])
        return ZN_FAIL(ZN_EFORMAT, "%s: layer '%s': weight, scales and biases are not a U32 matrix and two of its rows",
                       w->name, name);
    if (!is_scale(m.scales) || !is_scale(m.biases))
        return ZN_FAIL(ZN_EFORMAT, "%s: layer '%s': scales are %s and biases %s, not F16, BF16 or F32", w->name, name,
                       zn_dtype_name(m.scales->dtype), zn_dtype_name(m.biases->dtype));
    const int64_t words = m.weight->shape[1], groups = m.scales->shape[1];
    if (columns > 0 && words <= columns && words * 32 % columns == 0 && columns % groups == 0 &&
        columns / groups <= 128)
        m.form = (zn_mlx_form){ (int)(words * 32 / columns), (int)(columns / groups) };
    if (!zn_mlx_form_known(m.form))
        return ZN_FAIL(ZN_EFORMAT,
                       "%s: layer '%s': %" PRId64 " words and %" PRId64 " groups for each row of %" PRId64
                       " inputs are no known quantisation",
                       w->name, name, words, groups, columns);
    *layer = m;
    return ZN_OK;
}
