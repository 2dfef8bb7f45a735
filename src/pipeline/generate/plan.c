/* What generating an image of some size needs, as text for people. */
#include "pipeline/generate/generate.h"

#include "base/cpu.h"
#include "base/fail.h"

#include <stdio.h>

enum { SCALE = 8, USUAL_TOKENS = 64 };

static const double gib = 1024.0 * 1024 * 1024;

/* Bytes of the tensors of a part. */
static double stored_bytes(const zn_part_files *f)
{
    double bytes = 0;
    for (int i = 0; i < f->count; i++)
        for (int64_t t = 0; t < zn_weights_count(f->files[i]); t++)
            bytes += (double)zn_weights_at(f->files[i], t)->bytes;
    return bytes;
}

static zn_status plan_steps(zn_generator *g, const zn_part_files *files, int width, int height)
{
    zn_zimage_form form;
    zn_zimage_naming naming;
    size_t bytes = 0;
    const zn_prepare p = { g->compute.math, zn_cpu_flags(), true, true, zn_pool_threads(g->compute.pool) };
    ZN_TRY(zn_zimage_recognise(files->files, files->count, files->config.root, &form, &naming));
    ZN_TRY(zn_denoiser_estimate(&form, height / SCALE, width / SCALE, USUAL_TOKENS, &p, &bytes));
    snprintf(g->plan, sizeof g->plan, "steps: %d image tokens; %.2f GiB of weights, mapped; %.2f GiB of activations\n",
             width / SCALE / ZN_ZIMAGE_PATCH * (height / SCALE / ZN_ZIMAGE_PATCH), stored_bytes(files) / gib,
             (double)bytes / gib);
    return ZN_OK;
}

static zn_status plan(zn_generator *g, int width, int height)
{
    zn_part_files files;
    ZN_TRY(zn_part_open(g->paths.part[ZN_GENERATOR_TRANSFORMER], ZN_GENERATOR_TRANSFORMER, &files));
    const zn_status status = plan_steps(g, &files, width, height);
    zn_part_close(&files);
    return status;
}

zn_status zn_generator_plan(zn_generator *g, int width, int height, const char **text)
{
    *text = "";
    ZN_TRY(zn_generation_check(&(zn_generation){ .width = width, .height = height }));
    pthread_mutex_lock(&g->lock);
    const zn_status status = plan(g, width, height);
    pthread_mutex_unlock(&g->lock);
    *text = g->plan;
    return status;
}
