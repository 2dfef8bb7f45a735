/* Scores of one picture beside those of plain filters, and their means. */
#include "pipeline/eval/eval_score.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

const char *zn_eval_plain_name(int plain)
{
    static const char *const names[] = { "damaged", "mean", "median", "nlm" };
    return plain >= 0 && plain < ZN_PLAIN_COUNT ? names[plain] : NULL;
}

bool zn_eval_wants(const zn_eval_options *o, const zn_dataset *d, int64_t index)
{
    return !o->held_out || zn_dataset_held_out(d, index, o->held_out);
}

zn_status zn_eval_count_pixels(const zn_eval_options *o, const zn_dataset *d, double **out)
{
    const int64_t count = zn_dataset_count(d);
    *out = NULL;
    if (!o->progress)
        return ZN_OK;
    ZN_TRY(zn_alloc_for("the sizes of images", sizeof **out * ((size_t)count + 1), (void **)out));
    double *sum = *out;
    *sum = 0;
    for (int64_t i = 0; i < count; i++) {
        if (i % 256 == 255 && o->progress(o->user, 0))
            return ZN_FAIL(ZN_ECANCELLED, "cancelled");
        if (zn_eval_wants(o, d, i)) {
            const int64_t pixels = zn_dataset_pixels(d, i);
            sum[1] = sum[0] + (double)(pixels ? pixels : 1);
            sum++;
        }
    }
    return ZN_OK;
}

zn_status zn_eval_score_plain(const zn_eval_options *o, zn_scorer *scorer, int threads, const zn_image *picture,
                              const zn_image *damaged, zn_corruption c, zn_eval_row *row)
{
    static const zn_filter_kind kinds[] = {
        [ZN_PLAIN_MEAN] = ZN_FILTER_MEAN, [ZN_PLAIN_MEDIAN] = ZN_FILTER_MEDIAN, [ZN_PLAIN_NLM] = ZN_FILTER_NLM
    };
    ZN_TRY(zn_scorer_measure(scorer, picture, damaged, true, &row->plain[ZN_PLAIN_DAMAGED]));
    const double rms = 255 * pow(10, -row->plain[ZN_PLAIN_DAMAGED].psnr / 20);
    const double strength = c.damage == ZN_DAMAGE_GAUSSIAN && c.then == ZN_DAMAGE_NONE ? c.amount : rms;
    for (int p = ZN_PLAIN_MEAN; p < ZN_PLAIN_COUNT; p++) {
        const bool nlm = p == ZN_PLAIN_NLM;
        if (nlm && !o->nlm)
            continue;
        zn_image *filtered;
        ZN_TRY(zn_filter(damaged, kinds[p], nlm ? strength : 0, threads, &filtered));
        const zn_status status = zn_scorer_measure(scorer, picture, filtered, false, &row->plain[p]);
        zn_image_free(filtered);
        ZN_TRY(status);
    }
    return ZN_OK;
}

/* Scores whose mean leaves out images that have none; of PSNR it leaves out what is infinite. */
#define AT(member) offsetof(zn_scores, member)
static const size_t averaged[] = { AT(ssim),           AT(ms_ssim),        AT(lpips_alex),   AT(lpips_squeeze),
                                   AT(luma_kept[0]),   AT(luma_kept[1]),   AT(luma_kept[2]), AT(chroma_kept[0]),
                                   AT(chroma_kept[1]), AT(chroma_kept[2]), AT(flicker) };
_Static_assert(ZN_SCORE_BANDS == 3, "every band is averaged");

/* Of scores i of a list, see zn_mean_scores, the one at this offset. */
static double score_at(const zn_scores *first, size_t stride, int64_t i, size_t offset)
{
    return *(const double *)((const char *)first + stride * (size_t)i + offset);
}

static double mean_score(const zn_scores *first, size_t stride, int64_t count, size_t offset)
{
    int64_t known = 0;
    for (int64_t i = 0; i < count; i++)
        known += !isnan(score_at(first, stride, i, offset));
    double mean = known ? 0 : NAN;
    const double weight = 1.0 / (double)known;
    for (int64_t i = 0; i < count; i++) {
        const double v = score_at(first, stride, i, offset);
        mean += isnan(v) ? 0 : weight * v;
    }
    return mean;
}

zn_scores zn_mean_scores(const zn_scores *first, size_t stride, int64_t count)
{
    zn_scores mean = { 0 };
    for (int64_t i = 0; i < count; i++) {
        const zn_scores *s = (const zn_scores *)((const char *)first + stride * (size_t)i);
        mean.psnr_infinite += s->psnr_infinite;
        mean.psnr += s->psnr_infinite ? 0 : s->psnr;
    }
    const int64_t finite = count - mean.psnr_infinite;
    mean.psnr = finite ? mean.psnr / (double)finite : INFINITY;
    for (size_t k = 0; k < sizeof averaged / sizeof *averaged; k++)
        *(double *)((char *)&mean + averaged[k]) = mean_score(first, stride, count, averaged[k]);
    return mean;
}

void zn_eval_average(zn_eval_result *r)
{
    for (int64_t i = 0; i < r->row_count; i++)
        r->groups[i % r->group_count].pictures++;
    for (int64_t i = 0; i < r->row_count; i++) {
        zn_eval_group *g = &r->groups[i % r->group_count];
        g->ms += 1.0 / (double)g->pictures * r->rows[i].ms;
    }
    const size_t stride = sizeof *r->rows * (size_t)r->group_count;
    for (int i = 0; i < r->group_count; i++) {
        zn_eval_group *g = &r->groups[i];
        g->model = zn_mean_scores(&r->rows[i].model, stride, g->pictures);
        for (int p = 0; p < ZN_PLAIN_COUNT; p++)
            g->plain[p] = zn_mean_scores(&r->rows[i].plain[p], stride, g->pictures);
    }
}
