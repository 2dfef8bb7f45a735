/* What an executor tells about itself: the decisions of each pass, and the profile. */
#include "graph/exec_data.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

zn_exec_places zn_exec_count_places(const zn_exec *e)
{
    zn_exec_places places = { .steps = e->plan.step_count - e->first };
    for (int i = e->first; i < e->plan.step_count && e->options.device; i++)
        places.on_host += zn_exec_on_host(e, i);
    return places;
}

zn_exec_weights zn_exec_count_weights(const zn_exec *e)
{
    const zn_turns *s = &e->turns;
    return (zn_exec_weights){ s->resident, s->bytes, s->window_bytes };
}

double zn_exec_coarse(const zn_exec *e)
{
    double all = 0, coarse = 0;
    for (int i = e->first; i < e->plan.step_count; i++) {
        const zn_node *n = e->plan.steps[i];
        const double flops = n->op->flops ? n->op->flops(n) : 0;
        all += flops;
        if (n->op->math && n->op->math(n, &e->prepare) != ZN_PRECISION_F32)
            coarse += flops;
    }
    return all > 0 ? coarse / all : 0;
}

int zn_exec_rows(const zn_exec *e) { return e->ms ? e->plan.step_count - e->first : 0; }

zn_exec_row zn_exec_row_at(const zn_exec *e, int index)
{
    const zn_node *n = e->plan.steps[e->first + index];
    zn_exec_row row = { .node = n, .kernel = n->op->name, .ms = e->ms[e->first + index] };
    if (zn_shape_count(n->shape) == 0) /* the node had nothing to compute in this band */
        return row;
    row.flops = n->op->flops ? n->op->flops(n) : 0;
    row.flops_done = n->op->flops_done ? n->op->flops_done(n, &e->prepare) : row.flops;
    row.slots = n->op->slots ? n->op->slots(n, &e->prepare) : 0.5 * row.flops_done;
    row.bytes = (double)zn_type_size(n->type) * (double)zn_shape_count(n->shape);
    for (int s = 0; s < n->source_count; s++)
        row.bytes += (double)zn_type_size(n->source[s]->type) * (double)zn_shape_count(n->source[s]->shape);
    const zn_prepare own = zn_prepare_of(n, &e->prepare);
    if (n->op->kernel)
        row.kernel = n->op->kernel(n, &own);
    row.copied = e->options.device && zn_exec_on_host(e, e->first + index) ? row.bytes : 0;
    return row;
}

/* ---- what the passes decided ---- */

typedef struct text {
    char *to;
    size_t size, used;
} text;

__attribute__((format(printf, 2, 3))) static void add(text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (t->used < t->size) {
        const int length = vsnprintf(t->to + t->used, t->size - t->used, format, args);
        t->used += length > 0 ? (size_t)length : 0;
    }
    va_end(args);
}

static void add_types(const zn_exec *e, text *t)
{
    int count[ZN_TYPE_E4M3 + 1] = { 0 };
    for (int i = e->first; i < e->plan.step_count; i++)
        count[e->plan.steps[i]->type]++;
    const int steps = e->plan.step_count - e->first, narrow = count[ZN_TYPE_BF16] + count[ZN_TYPE_F16];
    if (narrow)
        add(t, "types: %d of %d results in %s, ", narrow, steps, count[ZN_TYPE_BF16] ? "bf16" : "f16");
    else
        add(t, "types: ");
    if (count[ZN_TYPE_E4M3])
        add(t, "%d in FP8, ", count[ZN_TYPE_E4M3]);
    add(t, steps == count[ZN_TYPE_F32] ? "all results in fp32" : "the rest in fp32");
}

static void add_places(const zn_exec *e, text *t)
{
    const zn_exec_places places = zn_exec_count_places(e);
    const char *kind = e->options.device ? zn_device_kind(e->options.device) : "the CPU";
    add(t, "\nplaces: %d of %d steps on %s", places.steps - places.on_host, places.steps, kind);
    if (!places.on_host)
        return;
    add(t, "; on the CPU, with copies:");
    for (int i = e->first; i < e->plan.step_count; i++) {
        bool first = zn_exec_on_host(e, i);
        for (int k = e->first; k < i && first; k++)
            first = !zn_exec_on_host(e, k) || e->plan.steps[k]->op != e->plan.steps[i]->op;
        if (first)
            add(t, " %s", e->plan.steps[i]->op->name);
    }
}

static const char *kernel_of(const zn_exec *e, int step)
{
    const zn_node *n = e->plan.steps[step];
    const zn_prepare own = zn_prepare_of(n, &e->prepare);
    return n->op->kernel ? n->op->kernel(n, &own) : NULL;
}

/* Kernels that were chosen from several, with how often. */
static void add_kernels(const zn_exec *e, text *t)
{
    add(t, "\nkernels:");
    for (int i = e->first; i < e->plan.step_count; i++) {
        const char *name = kernel_of(e, i);
        int count = 0;
        for (int k = e->first; name && k < e->plan.step_count; k++) {
            const char *other = kernel_of(e, k);
            if (!other || strcmp(other, name))
                continue;
            if (k < i)
                name = NULL; /* told already */
            else
                count++;
        }
        if (name && count)
            add(t, " %s (%d)", name, count);
    }
}

void zn_exec_describe(const zn_exec *e, char *to, size_t size)
{
    text t = { to, size, 0 };
    const double mib = 1048576.0;
    if (size)
        to[0] = 0;
    add_types(e, &t);
    add_places(e, &t);
    add_kernels(e, &t);
    add(&t, "\nmemory: %.1f MiB of activations and scratch, %.1f MiB of packed weights",
        (double)zn_exec_activation_bytes(e) / mib, (double)zn_exec_prepared_bytes(e) / mib);
}
