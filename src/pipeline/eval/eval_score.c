/* Scores of one picture beside those of plain filters, and their means. */
#include "pipeline/eval/eval_score.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "io/image/pixels/pixels.h"
#include "train/ranks/ranks.h"
#include "train/score/metrics.h"

#include <math.h>

const char *zn_eval_plain_name(int plain)
{
    static const char *const names[] = { "damaged", "mean", "median", "nlm" };
    return plain >= 0 && plain < ZN_PLAIN_COUNT ? names[plain] : NULL;
}

/* MS-SSIM of the 8-bit values; NaN where a side is too short. */
static zn_status ms_ssim(const zn_image *a, const zn_image *b, double *out)
{
    enum { LEAST = 176 };
    *out = NAN;
    if (a->width < LEAST || a->height < LEAST)
        return ZN_OK;
    const size_t row = (size_t)a->width * 3, samples = row * (size_t)a->height;
    const zn_region all = { 0, 0, a->width, a->height };
    float *both;
    ZN_TRY(zn_alloc_for("comparing pictures", sizeof *both * samples * 2, (void **)&both));
    zn_pixels_to_float(a, all, both, row);
    zn_pixels_to_float(b, all, both + samples, row);
    if (a->bits == 16) /* as the other scores have it */
        for (size_t i = 0; i < 2 * samples; i++)
            both[i] = floorf(both[i] * 255 + 0.5f) / 255;
    const zn_status status = zn_ms_ssim(both, both + samples, ZN_SHAPE(1, a->height, a->width, 3), 1, out);
    zn_free(both);
    return status;
}

zn_status zn_eval_score(const zn_image *truth, const zn_image *got, zn_scores *out)
{
    zn_image_difference d;
    ZN_TRY(zn_image_compare(truth, got, &d));
    out->psnr = d.psnr;
    out->ssim = d.ssim;
    out->psnr_infinite = isinf(d.psnr);
    return ms_ssim(truth, got, &out->ms_ssim);
}

zn_status zn_eval_score_plain(const zn_eval_options *o, int threads, const zn_image *picture, const zn_image *damaged,
                              zn_corruption c, zn_eval_row *row)
{
    static const zn_filter_kind kinds[] = {
        [ZN_PLAIN_MEAN] = ZN_FILTER_MEAN, [ZN_PLAIN_MEDIAN] = ZN_FILTER_MEDIAN, [ZN_PLAIN_NLM] = ZN_FILTER_NLM
    };
    ZN_TRY(zn_eval_score(picture, damaged, &row->plain[ZN_PLAIN_DAMAGED]));
    const double rms = 255 * pow(10, -row->plain[ZN_PLAIN_DAMAGED].psnr / 20);
    const double strength = c.damage == ZN_DAMAGE_GAUSSIAN ? c.amount : rms;
    for (int p = ZN_PLAIN_MEAN; p < ZN_PLAIN_COUNT; p++) {
        const bool nlm = p == ZN_PLAIN_NLM;
        if (nlm && !o->nlm)
            continue;
        zn_image *filtered;
        ZN_TRY(zn_filter(damaged, kinds[p], nlm ? strength : 0, threads, &filtered));
        const zn_status status = zn_eval_score(picture, filtered, &row->plain[p]);
        zn_image_free(filtered);
        ZN_TRY(status);
    }
    return ZN_OK;
}

static void add_scores(zn_scores *sum, const zn_scores *s, double weight, double ms_ssim_weight)
{
    if (s->psnr_infinite)
        sum->psnr_infinite++;
    else
        sum->psnr += s->psnr; /* divided by the number of those that are finite, at the end */
    sum->ssim += weight * s->ssim;
    if (!isnan(s->ms_ssim))
        sum->ms_ssim += ms_ssim_weight * s->ms_ssim;
}

void zn_eval_average(zn_eval_result *r)
{
    int64_t large[ZN_EVAL_GROUPS] = { 0 }; /* pictures large enough for MS-SSIM */
    for (int64_t i = 0; i < r->row_count; i++) {
        r->groups[i % r->group_count].pictures++;
        large[i % r->group_count] += !isnan(r->rows[i].model.ms_ssim);
    }
    for (int64_t i = 0; i < r->row_count; i++) {
        zn_eval_group *g = &r->groups[i % r->group_count];
        const int64_t of = large[i % r->group_count];
        const double weight = 1.0 / (double)g->pictures, ms_ssim_weight = of ? 1.0 / (double)of : NAN;
        g->ms += weight * r->rows[i].ms;
        add_scores(&g->model, &r->rows[i].model, weight, ms_ssim_weight);
        for (int p = 0; p < ZN_PLAIN_COUNT; p++)
            add_scores(&g->plain[p], &r->rows[i].plain[p], weight, ms_ssim_weight);
    }
    for (int d = 0; d < r->group_count; d++)
        for (int p = -1; p < ZN_PLAIN_COUNT; p++) {
            zn_scores *s = p < 0 ? &r->groups[d].model : &r->groups[d].plain[p];
            const int64_t finite = r->groups[d].pictures - s->psnr_infinite;
            s->psnr = finite ? s->psnr / (double)finite : INFINITY;
            if (isnan(s->psnr) || !large[d])
                s->ms_ssim = NAN;
        }
}
