/* Device copies of an executor's memory; see mirror.h. */
#include "graph/mirror.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "graph/needs.h"
#include "graph/types.h"

#include <string.h>

static zn_status keep_block(zn_mirror *m, const void *host, bool weights)
{
    if (!ZN_GROW(m->blocks, m->block_capacity, m->block_count + 1))
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a list of the device's blocks");
    m->blocks[m->block_count++] = (struct zn_mirror_block){ host, weights };
    return ZN_OK;
}

zn_status zn_mirror_block(zn_mirror *m, const void *host, size_t bytes, bool send)
{
    if (!bytes)
        return ZN_OK;
    ZN_TRY(zn_device_twin(m->device, host, bytes));
    const zn_status status = keep_block(m, host, false);
    if (status != ZN_OK)
        zn_device_drop(m->device, host);
    else if (send)
        zn_device_send(m->device, host, bytes);
    return status;
}

zn_status zn_mirror_weights(zn_mirror *m, const void *host, size_t bytes)
{
    const bool is_there = zn_device_has(m->device, host, bytes);
    ZN_TRY(zn_mirror_block(m, host, bytes, !is_there));
    if (bytes)
        m->blocks[m->block_count - 1].weights = true;
    return ZN_OK;
}

static zn_status give_buffer(zn_mirror *m, zn_node *n)
{
    void *host;
    ZN_TRY(zn_device_pinned_twin(m->device, zn_node_bytes(n), &host));
    const zn_status status = keep_block(m, host, false);
    if (status != ZN_OK) {
        zn_device_drop(m->device, host);
        return status;
    }
    n->data = memset(host, 0, zn_node_bytes(n));
    return ZN_OK;
}

static bool listed(zn_node *const *list, size_t count, const zn_node *n)
{
    for (size_t i = 0; i < count; i++)
        if (list[i] == n)
            return true;
    return false;
}

static zn_status add_input(zn_mirror *m, const zn_plan *plan, zn_node *n)
{
    if (listed(m->inputs, m->input_count, n))
        return ZN_OK;
    if (n->partner)
        return zn_mirror_block(m, n->data, zn_node_bytes(n), false);
    if (!ZN_GROW(m->inputs, m->input_capacity, m->input_count + 1))
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a list of inputs");
    m->inputs[m->input_count++] = n;
    return plan->offset[n->index] >= 0 ? give_buffer(m, n) : zn_mirror_block(m, n->data, zn_node_bytes(n), false);
}

static zn_status add_output(zn_mirror *m, zn_node *n)
{
    if (listed(m->outputs, m->output_count, n) || n->constant || n->op->is_leaf)
        return ZN_OK;
    if (n->partner)
        return zn_mirror_block(m, n->data, zn_node_bytes(n), false);
    if (!ZN_GROW(m->outputs, m->output_capacity, m->output_count + 1))
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a list of outputs");
    m->outputs[m->output_count++] = n;
    return n->placed ? zn_mirror_block(m, n->data, zn_node_bytes(n), false) : give_buffer(m, n);
}

/* Weights in their file format. */
static zn_status add_packed(zn_mirror *m, const zn_packed *w, int64_t rows)
{
    zn_window_buffer buffers[3];
    const int count = zn_packed_buffers(w, rows, buffers);
    for (int i = 0; i < count; i++)
        ZN_TRY(zn_mirror_weights(m, buffers[i].host, buffers[i].bytes));
    return ZN_OK;
}

/* Parameters that only constants read are not copied to the device, nor packed ones that only the CPU reads: a table of
 * words is large, and few rows of it are used. */
static zn_status add_sources(zn_mirror *m, const zn_plan *plan, const zn_prepare *p, bool changing, const zn_node *n)
{
    const bool replaces = !n->on_host && zn_needs_of(n, p).replaces, reads_packed = !n->on_host && !replaces;
    const unsigned replaced = replaces ? n->op->packing(n, p).sources : 0;
    for (int s = 0; s < n->source_count; s++) {
        zn_node *source = n->source[s];
        if (replaced >> s & 1 && source->data)
            continue;
        if (source->op == &zn_op_input || (changing && source->op == &zn_op_parameter && source->data))
            ZN_TRY(add_input(m, plan, source));
        else if (source->op == &zn_op_parameter && source->data)
            ZN_TRY(zn_mirror_block(m, source->data, zn_node_bytes(source), true));
        else if (source->packed && reads_packed && !zn_turns_has(m->turns, source->packed))
            ZN_TRY(add_packed(m, source->packed, source->shape.dim[2]));
    }
    return ZN_OK;
}

zn_status zn_mirror_make(zn_mirror *m, zn_device *d, const zn_turns *turns, const zn_plan *plan, const zn_prepare *p,
                         int first, bool changing, zn_node *const *outputs, int count)
{
    *m = (zn_mirror){ .device = d, .turns = turns };
    for (int i = first; i < plan->step_count; i++)
        ZN_TRY(add_sources(m, plan, p, changing, plan->steps[i]));
    for (int i = 0; i < count; i++)
        ZN_TRY(add_output(m, outputs[i]));
    return ZN_OK;
}

zn_status zn_mirror_constants(zn_mirror *m, const zn_plan *plan)
{
    for (int i = 0; i < plan->constant_count; i++)
        zn_device_send(m->device, plan->steps[i]->data, zn_node_bytes(plan->steps[i]));
    return zn_device_wait(m->device);
}

void zn_mirror_free(zn_mirror *m)
{
    for (size_t i = 0; i < m->block_count; i++)
        zn_device_drop(m->device, m->blocks[i].host);
    zn_free(m->blocks);
    zn_free(m->inputs);
    zn_free(m->outputs);
    *m = (zn_mirror){ 0 };
}

void zn_mirror_send(const zn_mirror *m)
{
    for (size_t i = 0; i < m->input_count; i++)
        zn_device_send(m->device, m->inputs[i]->data, zn_node_bytes(m->inputs[i]));
}

zn_status zn_mirror_fetch(const zn_mirror *m)
{
    if (!m->device)
        return ZN_OK;
    for (size_t i = 0; i < m->output_count; i++)
        zn_device_fetch(m->device, m->outputs[i]->data, zn_node_bytes(m->outputs[i]));
    return zn_device_wait(m->device);
}

zn_status zn_mirror_fetch_sources(const zn_mirror *m, const zn_node *n, bool parameters)
{
    for (int i = 0; i < n->source_count; i++) {
        const zn_node *source = n->source[i];
        if (source->data && (parameters || !zn_is_constant(source)))
            zn_device_fetch(m->device, source->data, zn_node_bytes(source));
    }
    return zn_device_wait(m->device);
}

void zn_mirror_send_result(const zn_mirror *m, const zn_node *n)
{
    zn_device_send(m->device, n->data, zn_node_bytes(n));
}
