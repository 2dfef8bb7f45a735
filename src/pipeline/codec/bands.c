/* Bands of rows: their memory, and the copies between them; see bands.h. */
#include "pipeline/codec/bands_data.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "graph/needs.h"
#include "graph/types.h"

#include <string.h>

/* ---- running ---- */

static char *row_at(const zn_bands *b, const zn_node *n, int64_t row)
{
    const step *st = step_of(b, b->now, n);
    return b->memory + b->window_at[n->index] + (size_t)(row - st->held.begin) * row_bytes(n);
}

/* Buffers of n and of its sources, where its window begins. */
static bool before(void *user, zn_node *n)
{
    const zn_bands *b = user;
    const step *st = step_of(b, b->now, n);
    if (!count_of(st->made))
        return false;
    for (int s = 0; s < n->source_count; s++)
        if (is_live(b, n->source[s]))
            n->source[s]->data = (float *)row_at(b, n->source[s], s == 0 ? st->read.begin : st->window.begin);
    n->data = (float *)row_at(b, n, st->window.begin);
    return zn_bands_show_window(b, n, st, false);
}

/* Rows of the band before take their places, those for the next one are put aside, and n is the rows that are new. */
static void after(void *user, zn_node *n)
{
    const zn_bands *b = user;
    const step *st = step_of(b, b->now, n);
    char *tail = b->memory + b->windows + b->tail_at[n->index];
    memcpy(row_at(b, n, st->kept), tail, row_bytes(n) * (size_t)(st->made.begin - st->kept));
    memcpy(tail, row_at(b, n, st->keep), row_bytes(n) * (size_t)(st->made.end - st->keep));
    n->data = (float *)row_at(b, n, st->made.begin);
    n->shape.dim[1] = count_of(st->made);
}

zn_status zn_bands_allocate(zn_bands *b)
{
    if (!b->memory)
        b->memory = zn_calloc(1, b->windows + b->tails);
    if (!b->memory)
        return ZN_FAIL(ZN_ENOMEM, "out of memory: %zu bytes for bands of rows", b->windows + b->tails);
    for (int i = 0; i < b->nodes; i++)
        if (b->live[i]) {
            zn_graph_at(b->graph, i)->placed = true;
            zn_graph_at(b->graph, i)->data = (float *)(b->memory + b->window_at[i]);
        }
    zn_bands_restore_heights(b);
    return ZN_OK;
}

void zn_bands_release(zn_bands *b)
{
    zn_free(b->memory);
    b->memory = NULL;
}

void zn_bands_begin(zn_bands *b, int band)
{
    b->now = band;
    after(b, b->input);
}

static float *made_rows(const zn_bands *b, int band, const zn_node *n, int64_t *first, int64_t *rows)
{
    const step *st = step_of(b, band, n);
    *first = st->made.begin;
    *rows = count_of(st->made);
    return (float *)(b->memory + b->window_at[n->index] + (size_t)(*first - st->held.begin) * row_bytes(n));
}

float *zn_bands_input(zn_bands *b, int band, int64_t *first, int64_t *rows)
{
    return made_rows(b, band, b->input, first, rows);
}

const float *zn_bands_output(const zn_bands *b, int band, int64_t *first, int64_t *rows)
{
    return made_rows(b, band, b->output, first, rows);
}
/* ---- making and measuring ---- */

static zn_status allocate_plan(zn_bands *b)
{
    const size_t nodes = (size_t)b->nodes + 1;
    b->live = zn_calloc(nodes, sizeof *b->live);
    b->height = zn_calloc(nodes, sizeof *b->height);
    b->last = zn_calloc(nodes, sizeof *b->last);
    b->saves = zn_calloc(nodes, sizeof *b->saves);
    b->block = zn_calloc(nodes, sizeof *b->block);
    b->phase = zn_calloc(nodes, sizeof *b->phase);
    b->window_at = zn_calloc(nodes, sizeof *b->window_at);
    b->tail_at = zn_calloc(nodes, sizeof *b->tail_at);
    return b->live && b->height && b->last && b->saves && b->block && b->phase && b->window_at && b->tail_at
               ? ZN_OK
               : ZN_FAIL(ZN_ENOMEM, "out of memory for a plan of bands");
}

zn_status zn_bands_new(zn_graph *g, zn_node *input, zn_node *output, const zn_prepare *p, int64_t rows, zn_bands **out,
                       bool *possible)
{
    *out = NULL;
    *possible = false;
    zn_bands *b = zn_calloc(1, sizeof *b);
    if (!b)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a plan of bands");
    *b = (zn_bands){ .graph = g, .input = input, .output = output, .prepare = *p, .rows = rows };
    b->nodes = zn_graph_count(g);
    b->hooks = (zn_exec_bands){ .before = before, .after = after, .user = b };
    zn_status status;
    ZN_TRY_DONE(allocate_plan(b));
    ZN_TRY_DONE(zn_types_choose(g, &output, 1, p));
    ZN_TRY_DONE(zn_bands_plan(b, possible));
done:
    if (status == ZN_OK && *possible)
        *out = b;
    else
        zn_bands_free(b);
    return status;
}

void zn_bands_free(zn_bands *b)
{
    if (!b)
        return;
    zn_free(b->live);
    zn_free(b->height);
    zn_free(b->last);
    zn_free(b->saves);
    zn_free(b->block);
    zn_free(b->phase);
    zn_free(b->window_at);
    zn_free(b->tail_at);
    zn_free(b->flops);
    zn_free(b->steps);
    zn_free(b->memory);
    zn_free(b);
}

size_t zn_bands_bytes(const zn_bands *b)
{
    const size_t thread = zn_needs_round(b->hooks.thread_scratch), shared = zn_needs_round(b->hooks.shared_scratch);
    return b->windows + b->tails + shared + thread * (size_t)b->prepare.threads;
}

double zn_bands_flops(const zn_bands *b)
{
    double all = 0;
    for (int i = 0; i < b->count; i++)
        all += b->flops[i];
    return all;
}

double zn_bands_band_flops(const zn_bands *b, int band) { return b->flops[band]; }
int zn_bands_count(const zn_bands *b) { return b->count; }
int64_t zn_bands_height(const zn_bands *b) { return b->rows; }
const zn_exec_bands *zn_bands_hooks(const zn_bands *b) { return &b->hooks; }
