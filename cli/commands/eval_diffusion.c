/* zenith eval with a diffusion autoencoder or a plain diffusion model: round trips, attributes, edits and samples. */
#include "commands/eval_diffusion.h"
#include "commands.h"
#include "options/compute.h"
#include "session/diffusion.h"
#include "ui/report.h"
#include "ui/scores.h"

#include <math.h>
#include <stdlib.h>

enum { EDITS = 8, SHOWN = 16 };

/* ---- text ---- */

static void trips_text(const zn_diffae_eval_result *r)
{
    char a[32], b[32], c[32], d[32], e[32], f[32];
    say("%-16s  %6s  %7s  %7s  %7s  %7s  %8s  %8s  %9s\n", "round trip", "images", "PSNR", "SSIM", "MS-SSIM", "LPIPS",
        "LPIPS-sq", "FID-like", "ms");
    for (int i = 0; i < ZN_TRIP_COUNT; i++) {
        const zn_eval_group *t = &r->trips.groups[i];
        if (!t->pictures)
            continue;
        say("%-8s noise    %6lld  %7s  %7s  %7s  %7s  %8s  %8s  %9.1f\n", zn_trip_name(i), (long long)t->pictures,
            measured(t->model.psnr, 2, a), measured(t->model.ssim, 4, b), measured(t->model.ms_ssim, 4, c),
            measured(t->model.lpips_alex, 4, d), measured(t->model.lpips_squeeze, 4, e), measured(t->fid, 3, f), t->ms);
    }
}

static void attributes_text(const zn_diffae_eval_result *r)
{
    char a[32], b[32], c[32], d[32], e[32], f[32], g[32];
    if (!r->attribute_count)
        return;
    say("\n%-28s  %5s  %7s  %6s  %6s  %6s  %6s  %6s  %6s  %8s  %10s\n", "attribute", "with", "without", "AUROC", "low",
        "high", "edits", "before", "after", "likeness", "recognised");
    for (int i = 0; i < r->attribute_count; i++) {
        const zn_diffae_eval_attribute *t = &r->attributes[i];
        say("%-28s  %5lld  %7lld  %6s  %6s  %6s  %6lld  %6s  %6s  %8s  %10s\n", t->name, (long long)t->with,
            (long long)t->without, measured(t->auroc, 3, a), measured(t->low, 3, b), measured(t->high, 3, c),
            (long long)t->edited, measured(t->before, 3, d), measured(t->after, 3, e), measured(t->likeness, 3, f),
            measured(t->recognised, 2, g));
    }
    if (r->edited)
        say("%-28s  %lld images, FID-like %s\n", "edits", (long long)r->edited, measured(r->edit_fid, 3, a));
}

static void samples_text(const zn_diffae_eval_result *r)
{
    char a[32];
    if (!r->sample_count)
        return;
    say("\n%-28s  %d images, FID-like %s\n", "samples", r->sample_count, measured(r->sample_fid, 3, a));
    for (int i = 0; r->nearest && i < r->sample_count && i < SHOWN; i++)
        say("%-28s  %8.3f  %s\n", i ? "" : "nearest image", r->nearest[i].distance, r->nearest[i].name);
    if (!isnan(r->held_distance))
        say("%-28s  %8.3f  (median)\n", "of held-out images", r->held_distance);
}

/* ---- JSON ---- */

static void trips_json(json *j, const zn_diffae_eval_result *r)
{
    json_open(j, "round_trips", '[');
    for (int i = 0; i < ZN_TRIP_COUNT; i++) {
        const zn_eval_group *t = &r->trips.groups[i];
        if (!t->pictures)
            continue;
        json_open(j, NULL, '{');
        json_text(j, "noise", zn_trip_name(i));
        json_integer(j, "images", t->pictures);
        json_real(j, "psnr", t->model.psnr);
        json_real(j, "ssim", t->model.ssim);
        json_real(j, "ms_ssim", t->model.ms_ssim);
        perception_json(j, &t->model);
        json_real(j, "fid", t->fid);
        json_real(j, "ms", t->ms);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void attributes_json(json *j, const zn_diffae_eval_result *r)
{
    json_open(j, "attributes", '[');
    for (int i = 0; i < r->attribute_count; i++) {
        const zn_diffae_eval_attribute *t = &r->attributes[i];
        json_open(j, NULL, '{');
        json_text(j, "attribute", t->name);
        json_integer(j, "with", t->with);
        json_integer(j, "without", t->without);
        json_real(j, "auroc", t->auroc);
        json_real(j, "low", t->low);
        json_real(j, "high", t->high);
        json_integer(j, "edited", t->edited);
        json_real(j, "before", t->before);
        json_real(j, "after", t->after);
        json_real(j, "likeness", t->likeness);
        json_real(j, "recognised", t->recognised);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_integer(j, "edited", r->edited);
    json_real(j, "edit_fid", r->edit_fid);
}

static void samples_json(json *j, const zn_diffae_eval_result *r)
{
    json_integer(j, "samples", r->sample_count);
    json_real(j, "sample_fid", r->sample_fid);
    json_real(j, "held_distance", r->held_distance);
    json_open(j, "nearest", '[');
    for (int i = 0; r->nearest && i < r->sample_count; i++) {
        json_open(j, NULL, '{');
        json_text(j, "image", r->nearest[i].name);
        json_real(j, "distance", r->nearest[i].distance);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void print_json(const options *o, const zn_model *model, const zn_diffae_eval_result *r)
{
    facts f;
    facts_begin(&f, 1);
    fact_model_name(&f, zn_model_info_of(model));
    fact_text(&f, "data", o->data);
    trips_json(&f.out, r);
    attributes_json(&f.out, r);
    samples_json(&f.out, r);
    fact_integer(&f, "failed", r->trips.failed);
    fact_real(&f, "seconds", r->trips.seconds, 1, " s");
    facts_end(&f);
}

static void print_text(const zn_diffae_eval_result *r)
{
    trips_text(r);
    attributes_text(r);
    samples_text(r);
}

/* ---- the command ---- */

static int check(const options *o)
{
    char *end = NULL;
    if (o->memory)
        return diffusion_refuse_memory(o);
    if (o->on_clips)
        return usage_error("eval", "--clips is for video autoencoders, not for diffusion autoencoders");
    if (o->damage || o->task || o->nlm)
        return usage_error("eval", "tasks, damages and filters are for models that restore");
    if ((o->attribute || o->edits || o->amount) && !o->labels)
        return usage_error("eval", "edits need --labels, which name the attributes");
    if (o->amount && (strtod(o->amount, &end) == 0 || *end))
        return usage_error("eval", "--amount needs a number other than 0, not '%s'", o->amount);
    return diffusion_check(o);
}

/* True if the features that distances and neighbours need are missing; sets of one image have no distance anyway. */
static int lacks_features(const zn_diffae_eval_result *r)
{
    const zn_eval_group *t = &r->trips.groups[0];
    return isnan(t->fid) && (t->pictures > 1 || (r->sample_count && !r->nearest));
}

int eval_diffusion(const options *o, const zn_model *model, progress *bar)
{
    const int usage = check(o);
    if (usage)
        return usage;
    const zn_options compute = compute_options(o, NULL);
    const zn_diffae_eval_options e = { .data = o->data,
                                       .compute = &compute,
                                       .held_out = o->heldout,
                                       .most = o->most,
                                       .steps = (int)o->steps,
                                       .encode_steps = (int)o->encode_steps,
                                       .latent_steps = (int)o->latent_steps,
                                       .labels = o->labels,
                                       .attribute = o->attribute,
                                       .edits = o->edits ? o->edits : EDITS,
                                       .amount = o->amount ? strtod(o->amount, NULL) : 0,
                                       .samples = o->count,
                                       .seed = o->seed,
                                       .lpips = (zn_lpips)o->lpips,
                                       .skipped = progress_skipped,
                                       .progress = progress_tick,
                                       .user = bar };
    zn_diffae_eval_result r;
    const zn_status status = zn_diffae_eval(model, &e, &r);
    progress_erase();
    if (status != ZN_OK) {
        complain("%s", zn_error_text());
        return EXIT_FAILURE;
    }
    if (lacks_features(&r))
        note(o, "distances of sets and neighbours need the weights of efficientnet-lite0 (docs/scores.md)");
    else
        note_few_images(o, o->count ? o->count : r.trips.groups[0].pictures);
    if (o->json)
        print_json(o, model, &r);
    else
        print_text(&r);
    /* Written last: results that took long to compute are printed even if this file cannot be written. */
    const int written = !o->output || zn_eval_write(o->output, &r.trips) == ZN_OK;
    if (!written)
        complain("%s", zn_error_text());
    const int failed = !written || r.trips.failed > 0;
    zn_diffae_eval_clear(&r);
    return failed ? EXIT_FAILURE : 0;
}
