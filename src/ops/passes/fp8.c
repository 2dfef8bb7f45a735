/* Chooses the products and the convolutions over frames that multiply FP8 numbers (kernels/fp8.h). A norm or a product
 * of two halves of a feed-forward part that only those read writes codes itself, so that its result never is in memory
 * with more bits. */
#include "kernels/fp8.h"
#include "base/alloc.h"
#include "kernels/token.h"
#include "ops/passes/fuse.h"

/* Whether the product can: rows of both factors are whole groups, weights do not change. */
static bool can_be_fp8(const zn_node *n)
{
    if (n->op != &zn_op_matrix || n->source_count > 2)
        return false;
    const zn_node *w = n->source[1];
    const int64_t in = w->shape.dim[3], out = w->shape.dim[2];
    return w->op == &zn_op_parameter && in % ZN_FP8_STEP == 0 && in <= ZN_FP8_DEPTH && out % ZN_FP8_STEP == 0;
}

static void use_fp8(zn_graph *g, const zn_fp8_choice *choice, int *uses)
{
    const zn_fp8_product k = { .trial = choice->trial, .off = choice->trial };
    for (int i = 0; i < zn_graph_count(g); i++) {
        zn_node *n = zn_graph_at(g, i);
        if (can_be_fp8(n) && choice->uses(choice->user, n->source[1]->name))
            zn_fuse_become(n, uses, &zn_op_matrix_fp8, &k, sizeof k, n->source, n->source_count);
    }
}

/* How often FP8 products read node i as their first source. */
static void count_readers(const zn_graph *g, int *readers)
{
    for (int i = 0; i < zn_graph_count(g); i++) {
        const zn_node *n = zn_graph_at(g, i);
        if (n->op == &zn_op_matrix_fp8)
            readers[n->source[0]->index]++;
    }
}

static void write_codes(zn_node *n, int *uses)
{
    if (n->op == &zn_op_silu_multiply) {
        zn_fuse_become(n, uses, &zn_op_silu_multiply_fp8, NULL, 0, n->source, n->source_count);
    } else if (n->op == &zn_op_gated_norm && n->source_count == 3) {
        zn_gated_norm k = *(const zn_gated_norm *)n->attribute;
        k.codes = true;
        zn_fuse_become(n, uses, &zn_op_gated_norm, &k, sizeof k, n->source, n->source_count);
    }
}

void zn_graph_use_fp8(zn_graph *g, zn_node *const *outputs, int count, const zn_fp8_choice *choice)
{
    int *uses = zn_fuse_count_uses(g, outputs, count), *readers = zn_calloc((size_t)zn_graph_count(g) + 1, sizeof(int));
    if (uses && readers) { /* out of memory: the graph as it is computes the same, with less error */
        use_fp8(g, choice, uses);
        count_readers(g, readers);
        for (int i = 0; i < zn_graph_count(g) && !choice->trial; i++)
            if (readers[i] && readers[i] == uses[i])
                write_codes(zn_graph_at(g, i), uses);
    }
    zn_free(uses);
    zn_free(readers);
}

/* ---- over frames ---- */

/* readers[i]: how often nodes that an output needs read node i; an output counts as one more. */
static void count_needed(const zn_graph *g, zn_node *const *outputs, int count, int *readers)
{
    for (int i = 0; i < count; i++)
        readers[outputs[i]->index]++;
    for (int i = zn_graph_count(g) - 1; i >= 0; i--)
        for (int s = 0; readers[i] && s < zn_graph_at(g, i)->source_count; s++)
            readers[zn_graph_at(g, i)->source[s]->index]++;
}

/* Whether n takes frames of x for the next piece of the clip, and nothing else reads them. */
static bool keeps(const zn_node *n, const zn_node *x, zn_node *const *outputs, int count, const int *readers)
{
    bool is_output = false;
    for (int i = 0; i < count; i++)
        is_output |= outputs[i] == n;
    return n->op == &zn_op_frames && n->source[n->source_count - 1] == x && is_output && readers[n->index] == 1;
}

/* The convolution for which x can be codes: it and the next piece have all that is read of x. NULL: none. */
static zn_node *reader_of(const zn_node *x, zn_node *const *outputs, int count, const int *readers)
{
    int known = 0;
    zn_node *conv = NULL;
    for (int i = x->index + 1; i < zn_graph_count(x->graph); i++) {
        zn_node *n = zn_graph_at(x->graph, i);
        const bool multiplies = readers[i] && n->op == &zn_op_conv_frames && n->source[0] == x && !conv;
        known += multiplies || (readers[i] && keeps(n, x, outputs, count, readers));
        conv = multiplies ? n : conv;
    }
    return known == readers[x->index] ? conv : NULL;
}

int zn_graph_use_fp8_frames(zn_graph *g, zn_node *const *outputs, int count, uint32_t cpu)
{
    int *readers = zn_calloc((size_t)zn_graph_count(g) + 1, sizeof(int));
    int used = 0;
    if (!readers)
        return 0; /* the graph as it is computes the same, with less error */
    count_needed(g, outputs, count, readers);
    for (int i = 0; i < zn_graph_count(g); i++) {
        zn_node *x = zn_graph_at(g, i);
        if (!readers[i] || x->wide || !zn_norm_can_write_codes(x))
            continue;
        zn_node *conv = reader_of(x, outputs, count, readers);
        if (!conv || !zn_conv_frames_of_codes(conv, cpu))
            continue;
        ((zn_conv_frames *)conv->attribute)->codes = true;
        zn_norm_write_codes(x);
        used++;
    }
    zn_free(readers);
    return used;
}

bool zn_is_fp8_product(const zn_node *n) { return n->op == &zn_op_matrix_fp8; }

void zn_fp8_try(zn_node *n, bool on) { ((zn_fp8_product *)n->attribute)->off = !on; }
