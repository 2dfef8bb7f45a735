/* Memory: what generating takes, within which budget, and as text for people. */
#include "pipeline/generate/generate.h"

#include "base/fail.h"
#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SCALE = 8, USUAL_TOKENS = 64 };

static const double mib = 1024.0 * 1024;

size_t zn_generator_budget(const zn_generator *g)
{
    const size_t overhead = zn_compute_overhead(&g->compute);
    if (overhead)
        return g->compute.options.memory > overhead ? g->compute.options.memory - overhead : 0;
    if (!g->compute.device) {
        const size_t all = g->compute.options.memory ? g->compute.options.memory : zn_memory_available(ZN_MEMINFO) / 2;
        return all > g->kept ? all - g->kept : 0;
    }
    size_t bytes = zn_device_free_memory(g->compute.device);
    for (int part = 0; part < ZN_GENERATOR_PARTS; part++)
        bytes += g->held[part];
    return bytes;
}

double zn_part_bytes(const zn_part_files *f)
{
    double bytes = 0;
    for (int i = 0; i < f->count; i++)
        for (int64_t t = 0; t < zn_weights_count(f->files[i]); t++)
            bytes += (double)zn_weights_at(f->files[i], t)->bytes;
    return bytes;
}

/* On a device: all weights stay there, or as many as fit beside what the other parts can do with, and the others take
 * turns: so nothing has to be copied, packed and pinned again for the next image. */
static zn_status plan_on_device(const zn_generator *g, const zn_part_files *files, const zn_generation *q,
                                const zn_denoiser_needs *needs, zn_step_plan *out)
{
    const double budget = (double)zn_generator_budget(g), all = zn_part_bytes(files);
    const double overhead = (double)zn_compute_overhead(&g->compute);
    /* the window of captions and modulations, beside the one of the steps */
    const double least = (double)out->bytes + (double)(needs->least_weights + needs->once_weights);
    const double shared = budget - (double)(g->needs[ZN_GENERATOR_TEXT] + g->needs[ZN_GENERATOR_VAE]);
    const double mine = shared >= least ? shared : budget;
    out->release = (double)out->bytes + all > mine;
    out->device_bytes = out->release ? (size_t)mine : out->bytes + (size_t)all;
    if (!out->release)
        return ZN_OK;
    if (least > budget)
        return ZN_FAIL(ZN_ENOMEM,
                       "%dx%d pixels need %.0f MiB of the GPU at least, with weights that take turns there, and the "
                       "budget is %.0f MiB: raise it or ask for a smaller image",
                       q->width, q->height, (least + overhead) / mib, (budget + overhead) / mib);
    out->once_weights = needs->once_weights;
    out->weights = (size_t)mine - out->bytes - out->once_weights;
    return ZN_OK;
}

zn_status zn_generator_plan_steps(const zn_generator *g, const zn_part_files *files, const zn_stored *weights,
                                  const zn_zimage_form *form, const zn_generation *q, int samples, int tokens,
                                  zn_step_plan *out)
{
    const zn_prepare p = { .math = g->compute.math,
                           .cpu = zn_device_flags(g->compute.device),
                           .constant_parameters = true,
                           .whole = true,
                           .threads = zn_pool_threads(g->compute.pool) };
    const double budget = (double)zn_generator_budget(g);
    zn_denoiser_needs needs;
    *out = (zn_step_plan){ 0 };
    ZN_TRY(zn_denoiser_estimate(form, g->compute.device ? weights : NULL, samples, q->height / SCALE, q->width / SCALE,
                                tokens, &p, &needs));
    out->bytes = needs.bytes * (q->guidance > 0 ? 2 : 1); /* captions of two lengths have a graph each */
    if (g->compute.device)
        return plan_on_device(g, files, q, &needs, out);
    if ((double)out->bytes > budget)
        return ZN_FAIL(ZN_ENOMEM,
                       "%dx%d pixels need %.1f MiB of memory beside the weights, and the budget is %.1f MiB%s",
                       q->width, q->height, (double)out->bytes / mib, budget / mib,
                       g->kept ? " without what the others of the batch take: raise it or make fewer at once"
                               : ": raise it or ask for a smaller image");
    out->release = (double)out->bytes + zn_part_bytes(files) > budget;
    return ZN_OK;
}

/* ---- as text ---- */

__attribute__((format(printf, 2, 3))) static void say(zn_generator *g, const char *format, ...)
{
    const size_t used = strlen(g->plan);
    va_list args;
    va_start(args, format);
    vsnprintf(g->plan + used, sizeof g->plan - used, format, args);
    va_end(args);
}

/* How the weights of a part are kept. */
static void say_weights(zn_generator *g, const char *part, const zn_part_files *files, bool release)
{
    say(g, "%s: %.1f MiB of weights in their files, %s", part, zn_part_bytes(files) / mib,
        g->compute.device && release
            ? "which exceed the budget: some stay on the GPU, others are copied there whenever they are used"
        : g->compute.device ? "copied to the GPU"
        : release           ? "read again whenever they are used, since they exceed the budget"
                            : "mapped");
}

static zn_status say_text(zn_generator *g, const zn_part_files *files, const zn_generation *q)
{
    (void)q;
    const bool release = zn_part_bytes(files) > (double)zn_generator_budget(g);
    say_weights(g, "text encoder", files, release);
    say(g, "%s\n",
        g->compute.device && g->compute.options.memory && !release
            ? "; from the second image on they may take turns, to leave room for the others"
            : "");
    return ZN_OK;
}

static zn_status say_steps(zn_generator *g, const zn_part_files *files, const zn_generation *q)
{
    zn_zimage_form form;
    zn_zimage_naming naming;
    zn_step_plan plan;
    ZN_TRY(zn_zimage_recognise(files->files, files->count, files->config.root, &form, &naming));
    form.piece = g->compute.device || g->fp8 ? ZN_ZIMAGE_WHOLE : 0;
    const zn_stored weights = { files->files, files->count, zn_zimage_place, &naming };
    ZN_TRY(zn_generator_plan_steps(g, files, &weights, &form, q, 1, USUAL_TOKENS, &plan));
    say_weights(g, "transformer", files, plan.release);
    if (plan.release && g->compute.device)
        say(g, " (%.1f MiB of the GPU are for weights)", (double)plan.weights / mib);
    say(g, "; %d image tokens, %.1f MiB of activations for each image\n",
        q->width / SCALE / ZN_ZIMAGE_PATCH * (q->height / SCALE / ZN_ZIMAGE_PATCH), (double)plan.bytes / mib);
    if (g->fp8)
        say(g, "fp8: %s\n",
            g->fp8_layers.file.root ? "the layers of the .fp8.json file beside the weights"
                                    : "the main blocks; no .fp8.json file beside the weights names other layers");
    return ZN_OK;
}

typedef zn_status (*say_fn)(zn_generator *g, const zn_part_files *files, const zn_generation *q);

static zn_status say_part(zn_generator *g, zn_generator_part part, say_fn call, const zn_generation *q)
{
    zn_part_files files;
    ZN_TRY(zn_part_open(g->paths.part[part], part, &files));
    const zn_status status = call(g, &files, q);
    zn_part_close(&files);
    return status;
}

static zn_status plan(zn_generator *g, const zn_generation *q)
{
    char encoder[1024], decoder[1024]; /* first: the others leave room for them */
    if (q->image)
        ZN_TRY(zn_generator_plan_vae(g, q, ZN_ENCODER, encoder, sizeof encoder));
    ZN_TRY(zn_generator_plan_vae(g, q, ZN_DECODER, decoder, sizeof decoder));
    g->plan[0] = 0;
    const size_t overhead = zn_compute_overhead(&g->compute);
    char asked[96] = "as asked";
    if (overhead)
        snprintf(asked, sizeof asked, "as asked, about %.0f of them for the driver and its libraries",
                 (double)overhead / mib);
    say(g, "memory: %.1f MiB, %s; precision: %s\n", (double)(zn_generator_budget(g) + overhead) / mib,
        g->compute.options.memory ? asked
        : g->compute.device       ? "what is free on the GPU"
                                  : "half of what is free",
        zn_precision_name(g->compute.options.precision));
    ZN_TRY(say_part(g, ZN_GENERATOR_TEXT, say_text, q));
    ZN_TRY(say_part(g, ZN_GENERATOR_TRANSFORMER, say_steps, q));
    if (q->image)
        say(g, "encoder: %s\n", encoder);
    say(g, "decoder: %s\n", decoder);
    return ZN_OK;
}

zn_status zn_generator_plan(zn_generator *g, const zn_generation *request, const char **text)
{
    zn_generation q;
    *text = "";
    ZN_TRY(zn_generation_read(request, &g->defaults, &q));
    pthread_mutex_lock(&g->lock);
    const zn_status status = plan(g, &q);
    pthread_mutex_unlock(&g->lock);
    *text = status == ZN_OK ? g->plan : "";
    return status;
}
