/* Memory that the steps of a plan need; see needs.h. */
#include "graph/needs.h"

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/fail.h"
#include "graph/exec.h"
#include "graph/types.h"

#include <string.h>

enum { ALIGN = 64 };

size_t zn_needs_round(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

bool zn_runs_on_host(const zn_node *n, const zn_prepare *p)
{
    return !(p->cpu & ZN_CPU_CUDA) || n->on_host || (n->constant && p->constant_parameters);
}

bool zn_views_parameters(const zn_prepare *p) { return p->constant_parameters && !(p->cpu & ZN_CPU_CUDA); }

zn_prepare zn_prepare_of(const zn_node *n, const zn_prepare *p)
{
    zn_prepare own = *p;
    if (own.cpu & ZN_CPU_CUDA && zn_runs_on_host(n, p))
        own.cpu = zn_cpu_flags();
    return own;
}

zn_needs zn_needs_of(const zn_node *n, const zn_prepare *p)
{
    const zn_prepare own = zn_prepare_of(n, p);
    return n->op->needs ? n->op->needs(n, &own) : (zn_needs){ 0 };
}

zn_needs zn_needs_of_plan(const zn_plan *plan, const zn_prepare *p)
{
    zn_needs all = { 0 };
    for (int i = 0; i < plan->step_count; i++) {
        const zn_needs needs = zn_needs_of(plan->steps[i], p);
        const size_t thread = zn_needs_round(needs.thread_scratch), shared = zn_needs_round(needs.shared_scratch);
        all.thread_scratch = thread > all.thread_scratch ? thread : all.thread_scratch;
        all.shared_scratch = shared > all.shared_scratch ? shared : all.shared_scratch;
        all.prepared += zn_needs_round(needs.prepared);
        all.packed += zn_needs_round(needs.packed);
    }
    return all;
}

/* Whether an earlier step has the same packed weights: a cache holds them once. */
static bool packs_again(const zn_plan *plan, int step, const zn_prepare *p, size_t bytes)
{
    const zn_node *n = plan->steps[step];
    const zn_packing own = n->op->packing(n, p);
    for (int i = 0; i < step; i++) {
        const zn_node *m = plan->steps[i];
        if (m->op != n->op || m->source_count < 2 || m->source[1] != n->source[1] || own.sources != 1u << 1)
            continue;
        const zn_packing other = m->op->packing(m, p);
        if (other.kernel == own.kernel && !memcmp(other.geometry, own.geometry, sizeof own.geometry) &&
            zn_needs_of(m, p).packed == bytes)
            return true;
    }
    return false;
}

/* Packed weights of a plan in a cache. */
static size_t packed_once(const zn_plan *plan, const zn_prepare *p)
{
    size_t all = 0;
    for (int i = 0; i < plan->step_count; i++) {
        const size_t bytes = zn_needs_of(plan->steps[i], p).packed;
        if (bytes && !packs_again(plan, i, p, bytes))
            all += zn_alloc_whole(bytes);
    }
    return all;
}

zn_status zn_exec_estimate(zn_graph *g, zn_node *const *outputs, int count, const zn_prepare *p, size_t *activations,
                           size_t *prepared)
{
    ZN_TRY(zn_graph_status(g));
    zn_plan plan;
    ZN_TRY(zn_types_choose(g, outputs, count, p));
    ZN_TRY(zn_plan_make(g, outputs, count, true, zn_views_parameters(p), &plan));
    const zn_needs needs = zn_needs_of_plan(&plan, p);
    *activations = plan.block + needs.shared_scratch + needs.thread_scratch * (size_t)p->threads;
    *prepared = needs.prepared + packed_once(&plan, p);
    zn_plan_free(&plan);
    return ZN_OK;
}
