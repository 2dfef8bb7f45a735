/* Scores as files: comma-separated values for spreadsheets, JSON for programs. */
#include <zenith/eval.h>

#include "base/fail.h"
#include "base/file.h"
#include "base/json.h"
#include "base/numbers.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

/* A number, or nothing where there is none. */
static void csv_number(zn_json_out *o, double v)
{
    if (isfinite(v))
        zn_json_out_format(o, ",%.9g", v);
    else
        zn_json_out_format(o, isinf(v) ? ",inf" : ",");
}

/* Quoted as RFC 4180 has it. */
static void csv_text(zn_json_out *o, const char *text)
{
    zn_json_out_raw(o, "\"", 1);
    for (; *text; text++)
        zn_json_out_raw(o, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    zn_json_out_raw(o, "\"", 1);
}

static void csv_scores(zn_json_out *o, const zn_scores *s)
{
    csv_number(o, s->psnr);
    csv_number(o, s->ssim);
    csv_number(o, s->ms_ssim);
    csv_number(o, isnan(s->psnr) ? NAN : (double)s->psnr_infinite);
    csv_number(o, s->lpips_alex);
    csv_number(o, s->lpips_squeeze);
    for (int i = 0; i < ZN_SCORE_BANDS; i++)
        csv_number(o, s->luma_kept[i]);
    for (int i = 0; i < ZN_SCORE_BANDS; i++)
        csv_number(o, s->chroma_kept[i]);
}

/* Whether the images were degraded, and so the degraded ones and filters are measured too. */
static bool has_plain(const zn_scores *plain) { return !isnan(plain[ZN_PLAIN_DAMAGED].psnr); }

/* What rows and means have in common. */
static void csv_figures(zn_json_out *o, const char *damage, double ms, const zn_scores *model, const zn_scores *plain)
{
    zn_json_out_format(o, ",%.3f", ms);
    csv_scores(o, model);
    if (!isnan(model->flicker))
        csv_number(o, model->flicker);
    if (damage[0])
        zn_json_out_format(o, ",%s", damage);
    for (int p = 0; has_plain(plain) && p < ZN_PLAIN_COUNT; p++)
        csv_scores(o, &plain[p]);
    zn_json_out_format(o, "\n");
}

/* Names of the columns of csv_scores. */
static void csv_names(zn_json_out *o, const char *before)
{
    static const char *const names[] = { "psnr",        "ssim",          "ms_ssim",       "psnr_infinite",
                                         "lpips_alex",  "lpips_squeeze", "luma_kept_1",   "luma_kept_2",
                                         "luma_kept_3", "chroma_kept_1", "chroma_kept_2", "chroma_kept_3" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        zn_json_out_format(o, ",%s%s%s", before, before[0] ? "_" : "", names[i]);
}

/* Rows of pictures, then one of the means for each damage or kind of noise, called "mean" and without a size. */
static void csv(zn_json_out *o, const zn_eval_result *r)
{
    zn_json_out_format(o, "image,width,height,ms");
    csv_names(o, "");
    if (!isnan(r->groups[0].model.flicker))
        zn_json_out_format(o, ",flicker");
    if (r->varied[0])
        zn_json_out_format(o, ",%s", r->varied);
    for (int p = 0; has_plain(r->groups[0].plain) && p < ZN_PLAIN_COUNT; p++)
        csv_names(o, zn_eval_plain_name(p));
    zn_json_out_format(o, "\n");
    for (int64_t i = 0; i < r->row_count; i++) {
        const zn_eval_row *row = &r->rows[i];
        csv_text(o, row->name);
        zn_json_out_format(o, ",%d,%d", row->width, row->height);
        csv_figures(o, row->damage, row->ms, &row->model, row->plain);
    }
    for (int g = 0; g < r->group_count; g++) {
        const zn_eval_group *m = &r->groups[g];
        zn_json_out_format(o, "mean,,");
        csv_figures(o, m->damage, m->ms, &m->model, m->plain);
    }
}

static void json_number(zn_json_out *o, const char *comma, const char *key, double v)
{
    zn_json_out_format(o, "%s\"%s\": ", comma, key);
    if (isfinite(v))
        zn_json_out_format(o, "%.9g", v);
    else
        zn_json_out_format(o, "null");
}

static void json_bands(zn_json_out *o, const char *key, const double *kept)
{
    zn_json_out_format(o, ", \"%s\": [", key);
    for (int i = 0; i < ZN_SCORE_BANDS; i++)
        if (isfinite(kept[i]))
            zn_json_out_format(o, "%s%.9g", i ? ", " : "", kept[i]);
        else
            zn_json_out_format(o, "%snull", i ? ", " : "");
    zn_json_out_format(o, "]");
}

/* comma: what goes before the first. */
static void json_scores(zn_json_out *o, const char *comma, const zn_scores *s)
{
    json_number(o, comma, "psnr", s->psnr);
    json_number(o, ", ", "ssim", s->ssim);
    json_number(o, ", ", "ms_ssim", s->ms_ssim);
    zn_json_out_format(o, ", \"psnr_infinite\": %lld", (long long)s->psnr_infinite);
    json_number(o, ", ", "lpips_alex", s->lpips_alex);
    json_number(o, ", ", "lpips_squeeze", s->lpips_squeeze);
    json_bands(o, "luma_kept", s->luma_kept);
    json_bands(o, "chroma_kept", s->chroma_kept);
    if (!isnan(s->flicker))
        json_number(o, ", ", "flicker", s->flicker);
}

/* What rows and means have in common; the object is open and has a member. */
static void json_figures(zn_json_out *o, const char *varied, const char *value, double ms, const zn_scores *model,
                         const zn_scores *plain)
{
    json_number(o, ", ", "ms", ms);
    json_scores(o, ", ", model);
    if (!varied[0])
        return;
    zn_json_out_format(o, ", \"%s\": \"%s\"", varied, value);
    for (int p = 0; p < ZN_PLAIN_COUNT; p++) {
        if (isnan(plain[p].psnr))
            continue;
        zn_json_out_format(o, ", \"%s\": {", zn_eval_plain_name(p));
        json_scores(o, "", &plain[p]);
        zn_json_out_format(o, "}");
    }
}

static void json(zn_json_out *o, const zn_eval_result *r)
{
    zn_json_out_format(o, "{\"model\": ");
    zn_json_out_string(o, r->architecture);
    zn_json_out_format(o, ", \"data\": ");
    zn_json_out_string(o, r->data);
    zn_json_out_format(o, ", \"failed\": %lld, \"mean\": [", (long long)r->failed);
    for (int g = 0; g < r->group_count; g++) {
        const zn_eval_group *m = &r->groups[g];
        zn_json_out_format(o, "%s{\"images\": %lld", g ? ",\n " : "\n ", (long long)m->pictures);
        if (!isnan(m->fid))
            json_number(o, ", ", "fid", m->fid);
        json_figures(o, r->varied, m->damage, m->ms, &m->model, m->plain);
        zn_json_out_format(o, "}");
    }
    zn_json_out_format(o, "],\n\"images\": [");
    for (int64_t i = 0; i < r->row_count; i++) {
        const zn_eval_row *row = &r->rows[i];
        zn_json_out_format(o, "%s{\"image\": ", i ? ",\n " : "\n ");
        zn_json_out_string(o, row->name);
        zn_json_out_format(o, ", \"width\": %d, \"height\": %d", row->width, row->height);
        json_figures(o, r->varied, row->damage, row->ms, &row->model, row->plain);
        zn_json_out_format(o, "}");
    }
    zn_json_out_format(o, "]}\n");
}

zn_status zn_eval_write(const char *path, const zn_eval_result *result)
{
    const char *dot = strrchr(path, '.');
    const bool is_csv = dot && !strcasecmp(dot, ".csv"), is_json = dot && !strcasecmp(dot, ".json");
    if (!is_csv && !is_json)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: scores are written as .csv or .json", path);
    zn_json_out o = { 0 };
    const locale_t old = zn_numbers_begin();
    (is_csv ? csv : json)(&o, result);
    zn_numbers_end(old);
    const zn_status status =
        o.failed ? ZN_FAIL(ZN_ENOMEM, "out of memory for %s", path) : zn_file_write(path, o.bytes, o.size);
    zn_json_out_free(&o);
    return status;
}
