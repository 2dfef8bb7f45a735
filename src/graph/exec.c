/* Runs a planned graph. */
#include "graph/exec_data.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "graph/finite.h"
#include "graph/needs.h"
#include "graph/types.h"

#include <string.h>

/* REFRESH_GROUP: number of nodes refreshed in parallel, for as many threads. REFRESH_BYTES: limit of a group on a
 * device, where large ones gain nothing. */
enum { REFRESH_GROUP = 16, REFRESH_BYTES = 32 << 20 };

static size_t most(size_t a, size_t b) { return a > b ? a : b; }

/* Divides the nodes that are refreshed into groups. All groups use the same memory, one after the other. */
static void group(zn_exec *e)
{
    size_t used = 0;
    int first = 0, count = 0;
    for (int i = 0; i < e->plan.step_count; i++) {
        const size_t bytes = zn_needs_round(zn_needs_of(e->plan.steps[i], &e->prepare).refreshed);
        e->group_end[i] = 0;
        if (!bytes)
            continue;
        if (count == REFRESH_GROUP || used == 0 || (e->options.device && used + bytes > REFRESH_BYTES)) {
            first = i;
            used = 0;
            count = 0;
        }
        e->refreshed_at[i] = used;
        used += bytes;
        e->group_end[first] = i + 1;
        e->refreshed_bytes = used > e->refreshed_bytes ? used : e->refreshed_bytes;
        count++;
    }
}

static zn_launch_context context_of(zn_exec *e, int step)
{
    char *scratch = e->block + e->plan.block + e->refreshed_bytes;
    return (zn_launch_context){ .pool = e->options.pool,
                                .device = zn_exec_on_host(e, step) ? NULL : e->options.device,
                                .shared = scratch,
                                .scratch = scratch + e->needs.shared_scratch,
                                .scratch_stride = e->needs.thread_scratch,
                                .prepared = e->prepared + e->prepared_at[step],
                                .packed = e->packed[step],
                                .refreshed = e->block + e->plan.block + e->refreshed_at[step] };
}

typedef struct refresh_args {
    zn_exec *exec;
    int first;
} refresh_args;

static void refresh(const void *args, zn_range r)
{
    const refresh_args *a = args;
    for (int64_t i = a->first + r.begin; i < a->first + r.end; i++) {
        const zn_node *n = a->exec->plan.steps[i];
        const zn_launch_context c = context_of(a->exec, (int)i);
        if (n->op->refresh && zn_needs_of(n, &a->exec->prepare).refreshed)
            n->op->refresh(n, c.prepared, c.refreshed, r.scratch);
    }
}

/* Steps of the CPU, in an executor with a device, are refreshed by themselves. */
static void refresh_on_device(zn_exec *e, int first)
{
    zn_device_group_begin(e->options.device);
    for (int i = first; i < e->group_end[first]; i++) {
        const zn_launch_context c = context_of(e, i);
        if (c.device && zn_needs_of(e->plan.steps[i], &e->prepare).refreshed)
            e->plan.steps[i]->op->launch_refresh(e->plan.steps[i], &c);
    }
    zn_device_group_end(e->options.device);
}

static void refresh_group(zn_exec *e, int first)
{
    const zn_launch_context c = context_of(e, first);
    if (e->options.device) {
        refresh_on_device(e, first);
        return;
    }
    zn_pool_run(c.pool, e->group_end[first] - first, 1, refresh, &(refresh_args){ e, first }, c.scratch,
                c.scratch_stride);
}

/* Sets where each step's prepared data is, and its packed weights unless they are shared. */
static void lay_out(zn_exec *e)
{
    size_t prepared = 0, packed = 0;
    for (int i = 0; i < e->plan.step_count; i++) {
        const zn_needs needs = zn_needs_of(e->plan.steps[i], &e->prepare);
        e->prepared_at[i] = prepared;
        e->packed[i] = needs.packed && e->own_packed ? e->own_packed + packed : NULL;
        prepared += zn_needs_round(needs.prepared);
        packed += zn_needs_round(needs.packed);
    }
}

/* Weights that stay in their file are there for steps that pack them. */
static zn_status check_deferred(const zn_node *n, const zn_prepare *p, size_t packed)
{
    const unsigned packs = packed ? n->op->packing(n, p).sources : 0;
    for (int i = 0; i < n->source_count; i++) {
        const zn_node *parameter = packs & 1u << i ? NULL : zn_deferred_source(n->source[i]);
        if (parameter)
            return ZN_FAIL(ZN_EUNSUPPORTED, "parameter '%s' was released, but %s needs all of it", parameter->name,
                           n->op->name);
    }
    return ZN_OK;
}

/* Whether a step packs weights in their file format, which are never fetched: after the others, all threads at once. */
static bool packs_later(const zn_exec *e, const zn_node *n)
{
    return !e->options.packs && n->op->takes_packed && !n->constant;
}

/* Makes what a step keeps between runs. The constants that it reads must be computed already. */
static zn_status prepare_step(zn_exec *e, int step)
{
    const zn_node *n = e->plan.steps[step];
    const zn_prepare own = zn_prepare_of(n, &e->prepare);
    const size_t packed = zn_needs_of(n, &e->prepare).packed;
    if (n->op->prepare)
        n->op->prepare(n, &own, e->prepared + e->prepared_at[step]);
    ZN_TRY(check_deferred(n, &own, packed));
    if (packed && e->options.packs)
        return zn_packs_get(e->options.packs, n, &own, packed, &e->fetched, &e->packed[step]);
    return packed && !packs_later(e, n) ? zn_pack_into(n, &own, &e->fetched, (void *)(uintptr_t)e->packed[step])
                                        : ZN_OK;
}

/* Packs the weights of steps that were left out before. */
static void pack_later(const void *args, zn_range r)
{
    const refresh_args *a = args;
    for (int64_t i = a->first + r.begin; i < a->first + r.end; i++) {
        const zn_node *n = a->exec->plan.steps[i];
        const zn_prepare own = zn_prepare_of(n, &a->exec->prepare);
        if (packs_later(a->exec, n) && zn_needs_of(n, &a->exec->prepare).packed)
            n->op->pack(n, &own, (void *)(uintptr_t)a->exec->packed[i]);
    }
}

static zn_status place(zn_exec *e, zn_graph *g)
{
    for (int i = 0; i < zn_graph_count(g); i++)
        if (e->plan.offset[i] >= 0)
            zn_graph_at(g, i)->data = (float *)(e->block + e->plan.offset[i]);
    for (int i = 0; i < zn_graph_count(g); i++) {
        const zn_node *n = zn_graph_at(g, i);
        if (n->op == &zn_op_input && e->plan.offset[i] >= 0)
            memset(n->data, 0, zn_node_bytes(n));
    }
    e->first = e->options.training ? 0 : e->plan.constant_count;
    for (int i = 0; i < e->plan.step_count; i++) {
        const zn_node *n = e->plan.steps[i];
        ZN_TRY(prepare_step(e, i));
        if (i >= e->first) {
            e->total_flops += n->op->flops ? n->op->flops(n) : 0;
        } else {
            const zn_launch_context c = context_of(e, i);
            n->op->run(n, &c);
        }
    }
    zn_free(e->fetched.values);
    e->fetched = (zn_fetched){ 0 };
    zn_pool_run(e->options.pool, e->plan.step_count - e->first, 1, pack_later, &(refresh_args){ e, e->first }, NULL, 0);
    return ZN_OK;
}

/* Allocates device copies (twins) of all memory. The caller holds the device lock. */
static zn_status move_to_device(zn_exec *e)
{
    zn_device *d = e->options.device;
    ZN_TRY(zn_turns_make(&e->turns, d, &e->plan, e->first, e->options.weights, e->options.pins));
    ZN_TRY(zn_mirror_make(&e->mirror, d, &e->turns, &e->plan, &e->prepare, e->first,
                          e->options.training && !e->options.resident, e->outputs, e->output_count));
    ZN_TRY(zn_mirror_block(&e->mirror, e->block, zn_exec_activation_bytes(e), false));
    ZN_TRY(zn_mirror_block(&e->mirror, e->prepared, e->needs.prepared, true));
    for (int i = 0; i < e->plan.step_count; i++) {
        const size_t packed = zn_needs_of(e->plan.steps[i], &e->prepare).packed;
        if (e->packed[i] && !zn_exec_on_host(e, i) && e->options.packs)
            ZN_TRY(zn_mirror_weights(&e->mirror, e->packed[i], packed));
        else if (e->packed[i] && !zn_exec_on_host(e, i))
            ZN_TRY(zn_mirror_block(&e->mirror, e->packed[i], packed, true));
    }
    return zn_mirror_constants(&e->mirror, &e->plan);
}

/* Whether the device has all kernels of a step. */
static bool device_can(zn_exec *e, int step)
{
    const zn_node *n = e->plan.steps[step];
    const zn_launch_context c = context_of(e, step);
    if (!n->op->launches || !n->op->launches(n))
        return false;
    zn_device_rehearse(e->options.device);
    if (n->op->launch_refresh && zn_needs_of(n, &e->prepare).refreshed)
        n->op->launch_refresh(n, &c);
    n->op->run(n, &c);
    return zn_device_rehearsed(e->options.device);
}

/* Marks the steps that the CPU has to run. Returns their number. */
static int mark_places(zn_exec *e)
{
    int marked = 0;
    for (int i = e->first; i < e->plan.step_count; i++)
        if (!zn_exec_on_host(e, i) && !device_can(e, i)) {
            e->plan.steps[i]->on_host = true;
            marked++;
        }
    return marked;
}

/* Everything in host memory. */
static zn_status build(zn_exec *e, zn_graph *g, zn_node *const *outputs, int count)
{
    const zn_exec_options *options = &e->options;
    ZN_TRY(zn_types_choose(g, outputs, count, &e->prepare));
    ZN_TRY(zn_plan_make(g, outputs, count, true, zn_views_parameters(&e->prepare), &e->plan));
    ZN_TRY(zn_plan_check_parameters(&e->plan));
    const size_t steps = (size_t)e->plan.step_count + 1;
    ZN_TRY(zn_alloc_for("executor", sizeof(size_t) * steps, (void **)&e->prepared_at));
    ZN_TRY(zn_alloc_for("executor", sizeof(void *) * steps, (void **)&e->packed));
    ZN_TRY(zn_alloc_for("executor", sizeof(size_t) * steps, (void **)&e->refreshed_at));
    ZN_TRY(zn_alloc_for("executor", sizeof(int) * steps, (void **)&e->group_end));
    memset(e->refreshed_at, 0, sizeof(size_t) * steps);
    ZN_TRY(zn_alloc_for("executor", sizeof(zn_node *) * (size_t)(count + 1), (void **)&e->outputs));
    ZN_TRY(zn_alloc_for("executor", (size_t)(count + 1), (void **)&e->arrived));
    memcpy(e->outputs, outputs, sizeof(zn_node *) * (size_t)count);
    memset(e->arrived, false, (size_t)(count + 1));
    e->output_count = count;
    if (options->profile) {
        ZN_TRY(zn_alloc_for("profile", sizeof(double) * steps, (void **)&e->ms));
        memset(e->ms, 0, sizeof(double) * steps);
    }
    e->needs = zn_needs_of_plan(&e->plan, &e->prepare);
    if (options->bands) {
        e->needs.thread_scratch = zn_needs_round(most(e->needs.thread_scratch, options->bands->thread_scratch));
        e->needs.shared_scratch = zn_needs_round(most(e->needs.shared_scratch, options->bands->shared_scratch));
    }
    group(e);
    ZN_TRY(zn_alloc_for("activations", zn_exec_activation_bytes(e), (void **)&e->block));
    ZN_TRY(zn_alloc_for("choices of kernels", e->needs.prepared, (void **)&e->prepared));
    if (!options->packs)
        ZN_TRY(zn_alloc_for("packed weights", e->needs.packed, (void **)&e->own_packed));
    lay_out(e);
    return place(e, g);
}

static zn_exec *new_exec(const zn_exec_options *options)
{
    zn_exec *e = zn_calloc(1, sizeof *e);
    if (!e)
        return NULL;
    e->options = *options;
    e->prepare = (zn_prepare){ zn_precision_or_f32(options->math),
                               zn_device_flags(options->device),
                               !options->training,
                               options->whole,
                               zn_pool_threads(options->pool),
                               options->lean };
    return e;
}

/* Inputs whose memory was the executor's must get memory again from the next one. */
static void forget_inputs(const zn_exec *e, zn_graph *g)
{
    for (int i = 0; i < zn_graph_count(g); i++)
        if (zn_graph_at(g, i)->op == &zn_op_input && e->plan.offset[i] >= 0)
            zn_graph_at(g, i)->data = NULL;
}

/* *marked: number of steps that turned out to have no kernel on the device. They are marked, and the executor has to be
 * built again, because what they need depends on where they run. */
static zn_status create(zn_graph *g, zn_node *const *outputs, int count, const zn_exec_options *options, int *marked,
                        zn_exec **out)
{
    *marked = 0;
    zn_exec *e = new_exec(options);
    if (!e)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for an executor");
    zn_status status = build(e, g, outputs, count);
    if (status == ZN_OK && options->device) {
        zn_device_lock(options->device);
        *marked = mark_places(e);
        if (*marked)
            forget_inputs(e, g);
        status = *marked ? ZN_OK : move_to_device(e);
        zn_device_unlock(options->device);
    }
    if (status == ZN_OK && !*marked)
        *out = e;
    else
        zn_exec_free(e);
    return status;
}

zn_status zn_exec_new(zn_graph *g, zn_node *const *outputs, int count, const zn_exec_options *options, zn_exec **out)
{
    *out = NULL;
    ZN_TRY(zn_graph_status(g));
    for (int i = 0; i < zn_graph_count(g); i++)
        zn_graph_at(g, i)->on_host = false;
    int marked;
    do
        ZN_TRY(create(g, outputs, count, options, &marked, out));
    while (marked);
    return ZN_OK;
}

void zn_exec_free(zn_exec *e)
{
    if (!e)
        return;
    zn_device_lock(e->options.device);
    zn_device_discard(e->options.device, e->recording);
    zn_turns_free(&e->turns);
    zn_mirror_free(&e->mirror);
    zn_device_unlock(e->options.device);
    zn_plan_free(&e->plan);
    zn_free(e->prepared_at);
    zn_free(e->refreshed_at);
    zn_free(e->group_end);
    zn_free(e->outputs);
    zn_free(e->arrived);
    zn_free(e->ms);
    zn_free(e->block);
    zn_free(e->prepared);
    zn_free(e->packed);
    zn_free(e->own_packed);
    zn_free(e->fetched.values);
    zn_free(e);
}

/* Waits for the device if the result or the time of this node is needed. */
static zn_status settle(zn_exec *e, const zn_node *n, bool look)
{
    if (!e->options.device || !(look || e->ms))
        return ZN_OK;
    if (look)
        zn_device_fetch(e->options.device, n->data, zn_node_bytes(n));
    return zn_device_wait(e->options.device);
}

/* A step that the CPU runs in an executor with a device. It is refreshed by itself, because the parameters that it
 * reads arrive just before it. */
static zn_status run_on_host(zn_exec *e, int step)
{
    zn_node *n = e->plan.steps[step];
    const zn_launch_context c = context_of(e, step);
    ZN_TRY(zn_mirror_fetch_sources(&e->mirror, n, e->options.training));
    if (n->op->refresh && zn_needs_of(n, &e->prepare).refreshed)
        n->op->refresh(n, c.prepared, c.refreshed, c.scratch);
    n->op->run(n, &c);
    zn_mirror_send_result(&e->mirror, n);
    return ZN_OK;
}

static zn_status run_step(zn_exec *e, int step)
{
    zn_node *n = e->plan.steps[step];
    if (e->group_end[step])
        refresh_group(e, step);
    if (e->options.device && zn_exec_on_host(e, step))
        return run_on_host(e, step);
    const zn_launch_context c = context_of(e, step);
    zn_turns_enter(&e->turns, step);
    n->op->run(n, &c);
    zn_turns_leave(&e->turns, step);
    return ZN_OK;
}

static bool overlap(const zn_node *a, const zn_node *b)
{
    const char *first = (const char *)a->data, *second = (const char *)b->data;
    return first < second + zn_node_bytes(b) && second < first + zn_node_bytes(a);
}

/* Whether steps can run in any order, or at the same time. */
static bool are_independent(const zn_node *a, const zn_node *b)
{
    for (int i = 0; i < a->source_count; i++)
        if (a->source[i] == b || (a->source[i]->data && overlap(a->source[i], b)))
            return false;
    for (int i = 0; i < b->source_count; i++)
        if (b->source[i] == a || (b->source[i]->data && overlap(b->source[i], a)))
            return false;
    return !overlap(a, b);
}

/* The step after those from `first` on that are one launch. */
static int end_of_launch(const zn_exec *e, int first, bool look)
{
    const zn_exec_options *o = &e->options;
    int end = first;
    if (!o->device || o->bands || o->enter || e->ms || look || e->turns.count)
        return first + 1;
    while (end < e->plan.step_count && e->plan.steps[end]->op->joins && !zn_exec_on_host(e, end)) {
        for (int i = first; i < end; i++)
            if (!are_independent(e->plan.steps[i], e->plan.steps[end]))
                return end;
        end++;
    }
    return end > first ? end : first + 1;
}

static zn_status run_each(zn_exec *e, bool look)
{
    double done = 0;
    for (int i = e->first, end = e->first; i < e->plan.step_count; i++) {
        if (i == end) {
            zn_device_group_end(e->options.device);
            end = end_of_launch(e, i, look);
            if (end > i + 1)
                zn_device_group_begin(e->options.device);
        }
        zn_node *n = e->plan.steps[i];
        const zn_exec_bands *bands = e->options.bands;
        const double start = e->ms ? zn_clock_ms() : 0;
        const bool runs = !bands || bands->before(bands->user, n);
        if (e->options.enter)
            e->options.enter(e->options.owner, n);
        if (runs)
            ZN_TRY(run_step(e, i));
        if (bands)
            bands->after(bands->user, n);
        ZN_TRY(settle(e, n, look));
        if (e->ms)
            e->ms[i] = zn_clock_ms() - start;
        if (look && runs && !zn_node_is_finite(n, e->options.pool))
            return ZN_FAIL(ZN_ENUMERIC, "NaN or infinity in the result of stage '%s' (%s)", n->name, n->op->name);
        done += n->op->flops ? n->op->flops(n) : 0;
        if (e->options.progress && e->options.progress(e->options.user, done / (e->total_flops + 1)))
            return ZN_FAIL(ZN_ECANCELLED, "cancelled");
    }
    return ZN_OK;
}

static zn_status run_steps(zn_exec *e, bool look)
{
    const zn_status status = run_each(e, look);
    zn_device_group_end(e->options.device);
    return status;
}

/* Whether all runs launch the same kernels with the same arguments, and nothing has to happen in between. */
static bool can_record(const zn_exec *e)
{
    return e->options.device && !e->ms && !e->options.varies && !e->options.bands && !e->options.enter &&
           !e->turns.count && zn_exec_count_places(e).on_host == 0;
}

/* The first run launches each kernel, as kernels are loaded and graphs that run once are not worth recording. The
 * second one is recorded. */
static zn_status run_recorded(zn_exec *e)
{
    if (!e->recording && e->plain_runs++ == 1 && zn_device_record(e->options.device)) {
        const zn_status status = run_steps(e, false);
        e->recording = zn_device_recorded(e->options.device);
        ZN_TRY(status);
    }
    if (!e->recording)
        return run_steps(e, false);
    zn_device_replay(e->options.device, e->recording);
    if (e->options.progress && e->options.progress(e->options.user, 1))
        return ZN_FAIL(ZN_ECANCELLED, "cancelled");
    return ZN_OK;
}

static zn_status run_between_copies(zn_exec *e, bool look)
{
    const bool copies = e->options.device && !e->options.resident;
    if (copies)
        zn_mirror_send(&e->mirror);
    zn_turns_begin(&e->turns);
    const zn_status status = !look && can_record(e) ? run_recorded(e) : run_steps(e, look);
    zn_turns_end(&e->turns);
    ZN_TRY(status);
    for (int i = 0; i < e->output_count; i++)
        e->arrived[i] = !e->options.device || (copies && !e->outputs[i]->partner);
    return copies ? zn_mirror_fetch(&e->mirror) : ZN_OK;
}

static zn_status run(zn_exec *e, bool look)
{
    zn_device_lock(e->options.device);
    const zn_status status = run_between_copies(e, look);
    zn_device_unlock(e->options.device);
    return status;
}

zn_status zn_exec_run(zn_exec *e) { return run(e, false); }

zn_status zn_exec_hold_weights(const zn_exec *e, zn_held_weights *out)
{
    const zn_mirror *m = &e->mirror;
    *out = (zn_held_weights){ .device = m->device };
    for (size_t i = 0; i < m->block_count; i++) {
        if (!m->blocks[i].weights)
            continue;
        if (!ZN_GROW(out->blocks, out->capacity, out->count + 1))
            return ZN_FAIL(ZN_ENOMEM, "out of memory for a list of weights");
        zn_device_lock(m->device);
        zn_device_keep(m->device, m->blocks[i].host);
        zn_device_unlock(m->device);
        out->blocks[out->count++] = m->blocks[i].host;
    }
    return ZN_OK;
}

void zn_held_weights_free(zn_held_weights *h)
{
    zn_device_lock(h->device);
    for (size_t i = 0; i < h->count; i++)
        zn_device_drop(h->device, h->blocks[i]);
    zn_device_unlock(h->device);
    zn_free(h->blocks);
    *h = (zn_held_weights){ 0 };
}

void zn_exec_send(zn_exec *e)
{
    zn_device_lock(e->options.device);
    zn_mirror_send(&e->mirror);
    zn_device_unlock(e->options.device);
}

zn_status zn_exec_fetch(zn_exec *e, zn_node *const *nodes, int count)
{
    zn_device *d = e->options.device;
    if (!d)
        return ZN_OK;
    zn_device_lock(d);
    for (int i = 0; i < count; i++)
        zn_device_fetch(d, nodes[i]->data, zn_node_bytes(nodes[i]));
    const zn_status status = zn_device_wait(d);
    zn_device_unlock(d);
    for (int i = 0; i < e->output_count; i++)
        for (int k = 0; k < count; k++)
            e->arrived[i] |= e->outputs[i] == nodes[k];
    return status;
}

zn_status zn_exec_check_finite(zn_exec *e)
{
    bool good = true;
    for (int i = 0; i < e->output_count; i++)
        good &= !e->arrived[i] || zn_node_is_finite(e->outputs[i], e->options.pool);
    if (good)
        return ZN_OK;
    for (int i = 0; i < e->plan.step_count; i++)
        for (int s = 0; s < e->plan.steps[i]->source_count; s++) {
            const zn_node *n = e->plan.steps[i]->source[s];
            const bool is_here = !e->options.device || !n->partner;
            if (n->op->is_leaf && n->data && is_here && !zn_node_is_finite(n, e->options.pool))
                return ZN_FAIL(ZN_ENUMERIC, "the %s '%s' holds NaN or infinity", n->op->name, n->name);
        }
    ZN_TRY(run(e, true));
    return ZN_FAIL(ZN_ENUMERIC, "NaN or infinity in the result");
}

size_t zn_exec_activation_bytes(const zn_exec *e)
{
    return e->plan.block + e->refreshed_bytes + e->needs.shared_scratch +
           e->needs.thread_scratch * (size_t)zn_pool_threads(e->options.pool);
}

size_t zn_exec_prepared_bytes(const zn_exec *e) { return e->needs.prepared + e->needs.packed; }
