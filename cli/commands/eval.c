/* zenith eval: measures the quality of a model on a folder of images or a data set. --gates: what its gates prune. */
#include "commands.h"
#include "commands/eval_diffusion.h"
#include "files/files.h"
#include "files/ranks.h"
#include "options/compute.h"
#include "session/diffusion.h"
#include "session/session.h"
#include "ui/facts.h"
#include "ui/report.h"
#include "ui/scores.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- text ---- */

/* A column for each network of LPIPS that some image was measured with. */
static int has_alex(const zn_eval_result *r) { return !isnan(r->groups[0].model.lpips_alex); }
static int has_flicker(const zn_eval_result *r) { return !isnan(r->groups[0].model.flicker); }
static int has_squeeze(const zn_eval_result *r) { return !isnan(r->groups[0].model.lpips_squeeze); }

static void scores_text(const zn_eval_result *r, const zn_scores *s)
{
    char a[32], b[32], c[32];
    say("  %8s  %7s  %7s", measured(s->psnr, 2, a), measured(s->ssim, 4, b), measured(s->ms_ssim, 4, c));
    if (has_alex(r))
        say("  %7s", measured(s->lpips_alex, 4, a));
    if (has_squeeze(r))
        say("  %8s", measured(s->lpips_squeeze, 4, a));
    say("  %6s  %6s", measured(100 * s->luma_kept[0], 1, a), measured(100 * s->chroma_kept[0], 1, b));
    if (has_flicker(r))
        say("  %7s", measured(s->flicker, 3, a));
}

/* Of the column of sizes or damages. */
static int kind_width(const zn_eval_result *r)
{
    int width = 12;
    for (int g = 0; g < r->group_count; g++) {
        const int n = (int)strlen(r->groups[g].damage);
        width = n > width ? n : width;
    }
    return width;
}

/* Number of plain filters that were run. */
static int plain_count(const options *o) { return o->nlm ? ZN_PLAIN_COUNT : ZN_PLAIN_NLM; }

static void plain_text(const options *o, const zn_scores *plain)
{
    char text[32];
    for (int p = 0; p < plain_count(o); p++)
        say("  %8s", measured(plain[p].psnr, 2, text));
}

/* Prints below each mean PSNR how many images with infinite PSNR it leaves out; nothing if there are none. */
static void infinite_text(const options *o, const zn_eval_result *r, const zn_eval_group *m, int width)
{
    int64_t all = m->model.psnr_infinite;
    for (int p = 0; m->damage[0] && p < plain_count(o); p++)
        all += m->plain[p].psnr_infinite;
    if (!all)
        return;
    const int beside = 34 + 9 * has_alex(r) + 10 * has_squeeze(r); /* the columns from SSIM on */
    say("%-*s  %-*s  %8lld%*s", width, "infinite", kind_width(r), m->damage, (long long)m->model.psnr_infinite, beside,
        "");
    for (int p = 0; m->damage[0] && p < plain_count(o); p++)
        say("  %8lld", (long long)m->plain[p].psnr_infinite);
    say("\n");
}

static void print_text(const options *o, const zn_eval_result *r)
{
    const int damaged = r->groups[0].damage[0] != 0;
    int width = 8;
    for (int64_t i = 0; !o->quiet && i < r->row_count; i++) {
        const int n = (int)strlen(r->rows[i].name);
        width = n > width ? n : width;
    }
    width = width > 48 ? 48 : width;
    const int kind = kind_width(r);
    say("%-*s  %-*s  %8s  %7s  %7s", width, o->on_clips ? "clip" : "image", kind, damaged ? "damage" : "size", "PSNR",
        "SSIM", "MS-SSIM");
    if (has_alex(r))
        say("  %7s", "LPIPS");
    if (has_squeeze(r))
        say("  %8s", "LPIPS-sq");
    say("  %6s  %6s", "luma%", "chrom%");
    if (has_flicker(r))
        say("  %7s", "flicker");
    for (int p = 0; damaged && p < plain_count(o); p++)
        say("  %8s", zn_eval_plain_name(p));
    say("  %9s\n", "ms");
    for (int64_t i = 0; !o->quiet && i < r->row_count; i++) {
        const zn_eval_row *row = &r->rows[i];
        char size[32];
        snprintf(size, sizeof size, "%dx%d", row->width, row->height);
        say("%-*s  %-*s", width, row->name, kind, damaged ? row->damage : size);
        scores_text(r, &row->model);
        if (damaged)
            plain_text(o, row->plain);
        say("  %9.1f\n", row->ms);
    }
    for (int g = 0; g < r->group_count; g++) {
        const zn_eval_group *m = &r->groups[g];
        char pictures[32];
        snprintf(pictures, sizeof pictures, "%lld", (long long)m->pictures);
        say("%-*s  %-*s", width, damaged ? "mean" : "mean of", kind, damaged ? m->damage : pictures);
        scores_text(r, &m->model);
        if (damaged)
            plain_text(o, m->plain);
        say("  %9.1f\n", m->ms);
        infinite_text(o, r, m, width);
    }
    for (int g = 0; g < r->group_count; g++)
        if (!isnan(r->groups[g].fid))
            say("%-*s  %-*s  %8.3f\n", width, "FID-like", kind, r->groups[g].damage, r->groups[g].fid);
}

/* ---- JSON ---- */

static void scores_json(json *j, const zn_scores *s)
{
    json_real(j, "psnr", s->psnr);
    json_real(j, "ssim", s->ssim);
    json_real(j, "ms_ssim", s->ms_ssim);
    json_integer(j, "psnr_infinite", s->psnr_infinite);
    perception_json(j, s);
    if (!isnan(s->flicker))
        json_real(j, "flicker", s->flicker);
}

static void figures_json(json *j, const char *damage, double ms, const zn_scores *model, const zn_scores *plain)
{
    json_real(j, "ms", ms);
    scores_json(j, model);
    if (!damage[0])
        return;
    json_text(j, "damage", damage);
    for (int p = 0; p < ZN_PLAIN_COUNT; p++) {
        if (isnan(plain[p].psnr))
            continue;
        json_open(j, zn_eval_plain_name(p), '{');
        scores_json(j, &plain[p]);
        json_close(j, '}');
    }
}

static void print_json(const options *o, const zn_model *model, const zn_eval_result *r)
{
    facts f;
    facts_begin(&f, 1);
    fact_model_name(&f, zn_model_info_of(model));
    fact_text(&f, "data", o->data);
    json_open(&f.out, "mean", '[');
    for (int g = 0; g < r->group_count; g++) {
        const zn_eval_group *m = &r->groups[g];
        json_open(&f.out, NULL, '{');
        json_integer(&f.out, "images", m->pictures);
        if (!isnan(m->fid))
            json_real(&f.out, "fid", m->fid);
        figures_json(&f.out, m->damage, m->ms, &m->model, m->plain);
        json_close(&f.out, '}');
    }
    json_close(&f.out, ']');
    json_open(&f.out, "images", '[');
    for (int64_t i = 0; i < r->row_count; i++) {
        const zn_eval_row *row = &r->rows[i];
        json_open(&f.out, NULL, '{');
        json_text(&f.out, "image", row->name);
        json_integer(&f.out, "width", row->width);
        json_integer(&f.out, "height", row->height);
        figures_json(&f.out, row->damage, row->ms, &row->model, row->plain);
        json_close(&f.out, '}');
    }
    json_close(&f.out, ']');
    fact_integer(&f, "failed", r->failed);
    fact_real(&f, "seconds", r->seconds, 1, " s");
    facts_end(&f);
}

/* ---- gates ---- */

static void print_gates(const options *o, const zn_model_info *model, const zn_gate_result *r)
{
    facts f;
    facts_begin(&f, o->json);
    fact_model_name(&f, model);
    fact_integer(&f, "images", r->pictures);
    fact_real(&f, "encode_ms", r->ms, 3, "");
    if (f.json)
        json_open(&f.out, "layers", '[');
    else
        say("\n%-24s  %9s  %6s  %7s\n", "layer", "ms", "share", "pruned");
    for (int i = 0; i < r->row_count; i++) {
        const zn_gate_row *row = &r->rows[i];
        char pruned[32];
        if (!f.json) {
            say("%-24s  %9.3f  %5.1f%%  %6s%s\n", row->layer, row->ms, 100 * row->share,
                measured(100 * row->pruned, 1, pruned), isnan(row->pruned) ? "" : "%");
            continue;
        }
        json_open(&f.out, NULL, '{');
        json_text(&f.out, "layer", row->layer);
        json_real(&f.out, "ms", row->ms);
        json_real(&f.out, "share", row->share);
        json_real(&f.out, "pruned", row->pruned);
        json_close(&f.out, '}');
    }
    if (f.json) {
        json_close(&f.out, ']');
        json_integer(&f.out, "failed", r->failed);
    }
    facts_end(&f);
}

static int run_gates(const options *o, const zn_model *model, const zn_eval_options *e)
{
    zn_gate_result r;
    const zn_status status = zn_eval_gates(model, e, &r);
    progress_erase();
    if (status != ZN_OK) {
        complain("%s", zn_error_text());
        return EXIT_FAILURE;
    }
    print_gates(o, zn_model_info_of(model), &r);
    const int failed = r.failed > 0;
    zn_gate_result_clear(&r);
    return failed ? EXIT_FAILURE : 0;
}

/* ---- the command ---- */

static int run_scores(const options *o, const zn_model *model, const zn_eval_options *e)
{
    zn_eval_result r;
    zn_status status = zn_eval(model, e, &r);
    progress_erase();
    if (status == ZN_OK && o->fid)
        note_few_images(o, r.groups[0].pictures);
    if (status == ZN_OK && o->json)
        print_json(o, model, &r);
    else if (status == ZN_OK)
        print_text(o, &r);
    /* Written last: results that took long to compute are printed even if this file cannot be written. */
    if (status == ZN_OK && o->output && zn_ranks_rank(e->ranks) == 0)
        status = zn_eval_write(o->output, &r);
    if (status != ZN_OK)
        complain("%s", zn_error_text());
    const int failed = status != ZN_OK || r.failed;
    zn_eval_result_clear(&r);
    return failed ? EXIT_FAILURE : 0;
}

static int check(const options *o)
{
    if (!o->data)
        return usage_error("eval", "--data is needed: a folder of images or an .lmdb data set");
    if (is_video_file(o->data) && !is_folder(o->data))
        return usage_error("eval",
                           "--data needs a data set, not a video: make one with 'zenith dataset build --clips 17 %s -o "
                           "SET.lmdb' and use --clips --data SET.lmdb",
                           o->data);
    if (o->gates && o->on_clips)
        return usage_error("eval", "--gates is for images: leave out --clips");
    if (o->output && o->gates)
        return usage_error("eval", "--gates prints a table or --json and does not take -o");
    if (o->output && !has_extension(o->output, "csv json"))
        return usage_error("eval", "cannot write '%s': its name must end in .csv or .json", o->output);
    if (o->output && is_folder(o->output))
        return usage_error("eval", "cannot write '%s': it is a folder", o->output);
    return o->output ? lacks_folder(o->output) : 0;
}

static int run_on(const options *o, zn_ranks *ranks)
{
    const int usage = check(o);
    const zn_options compute = compute_options(o, NULL);
    zn_eval_options e = { .data = o->data,
                          .compute = &compute,
                          .task = (zn_task)o->task,
                          .seed = o->seed,
                          .held_out = o->heldout,
                          .nlm = o->nlm,
                          .clips = o->on_clips,
                          .fid = o->fid,
                          .lpips = (zn_lpips)o->lpips,
                          .ranks = ranks,
                          .skipped = progress_skipped,
                          .progress = progress_tick };
    if (usage)
        return usage;
    if (o->damage && zn_corruption_parse(o->damage, &e.damage) != ZN_OK)
        return usage_error("eval", "%s", zn_error_text());
    if (o->damage && e.damage.damage == ZN_DAMAGE_NONE)
        return usage_error("eval", "--damage needs a kind of damage, not '%s'", o->damage);
    zn_model *model;
    const int status = model_open(o, o->model, &model);
    if (zn_ranks_agree(ranks, status ? ZN_ENOTFOUND : ZN_OK) != ZN_OK) {
        if (!status) {
            complain("%s", zn_error_text());
            zn_model_free(model);
        }
        return EXIT_FAILURE;
    }
    if (!o->model)
        note(o, "model %s from %s", zn_model_info_of(model)->architecture, zn_model_info_of(model)->path);
    const char *given = diffusion_option(o);
    if (given && !zn_model_info_of(model)->diffuses) {
        const int misplaced = usage_error("eval", "%s is for diffusion autoencoders, and %s is not one", given,
                                          zn_model_info_of(model)->architecture);
        zn_model_free(model);
        return misplaced;
    }
    progress bar = { .quiet = o->quiet, .line_ms = progress_line_ms() };
    progress_begin(&bar, "eval", 0, 1);
    interrupt_catch();
    e.user = &bar;
    int result = 0;
    if (zn_model_info_of(model)->diffuses && !o->gates)
        result = zn_ranks_rank(ranks) ? 0 : eval_diffusion(o, model, &bar);
    else if (!o->gates)
        result = run_scores(o, model, &e);
    else if (zn_ranks_rank(ranks) == 0) /* times are measured in a single process */
        result = run_gates(o, model, &e);
    zn_model_free(model);
    return result;
}

int eval_run(const options *o) { return on_ranks(o, run_on); }
