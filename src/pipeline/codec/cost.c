/* What a run would cost, from the graph alone; and the library's version. */
#include "base/cpu.h"
#include "base/fail.h"
#include "graph/exec.h"
#include "models/model.h"
#include "pipeline/codec/runner.h"

#include <zenith/zenith.h>

const char *zn_version(void) { return ZN_VERSION_STRING; }

zn_status zn_model_cost(const zn_model *m, zn_part part, int width, int height, zn_cost *out)
{
    const int d = m->config.downscale;
    *out = (zn_cost){ 0 };
    if (width < 1 || height < 1 || width > ZN_MOST_SIDE || height > ZN_MOST_SIDE)
        return ZN_FAIL(ZN_EINVALID, "a size of %dx%d is not one", width, height);
    const int64_t w = (width + d - 1) / d, h = (height + d - 1) / d;
    part = m->info.restores ? ZN_ENCODER : part;
    const int64_t step = part == ZN_ENCODER ? d : 1;
    const zn_shape shape = ZN_SHAPE(1, h * step, w * step, zn_model_inputs(m, part));
    zn_graph *g;
    zn_node *input, *output;
    ZN_TRY(zn_model_graph(m, part, shape, &g, &input, &output));
    zn_graph_fuse(g, &output, 1);
    out->gflop = zn_graph_flops(g, output) * 1e-9;
    size_t activations, prepared;
    const zn_prepare p = {
        .math = ZN_PRECISION_F32, .cpu = zn_cpu_flags(), .constant_parameters = true, .threads = zn_cpu_count()
    };
    const zn_status status = zn_exec_estimate(g, &output, 1, &p, &activations, &prepared);
    out->activations = (int64_t)activations;
    out->weights = (int64_t)prepared;
    zn_graph_free(g);
    return status;
}
