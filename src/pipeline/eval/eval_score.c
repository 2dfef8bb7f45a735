/* Scores of one picture beside those of plain filters, and their means. */
#include "pipeline/eval/eval_score.h"

#include "base/fail.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

const char *zn_eval_plain_name(int plain)
{
    static const char *const names[] = { "damaged", "mean", "median", "nlm" };
    return plain >= 0 && plain < ZN_PLAIN_COUNT ? names[plain] : NULL;
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

/* Scores whose mean leaves out images that have none; PSNR has rules of its own. */
#define AT(member) offsetof(zn_scores, member)
static const size_t averaged[] = { AT(ssim),           AT(ms_ssim),        AT(lpips_alex),   AT(lpips_squeeze),
                                   AT(luma_kept[0]),   AT(luma_kept[1]),   AT(luma_kept[2]), AT(chroma_kept[0]),
                                   AT(chroma_kept[1]), AT(chroma_kept[2]), AT(flicker) };
_Static_assert(ZN_SCORE_BANDS == 3, "every band is averaged");

static double *score_at(zn_scores *s, size_t offset) { return (double *)((char *)s + offset); }

/* Scores of the model (p < 0) or of a plain filter in row or group. */
#define SCORES_OF(owner, p) ((p) < 0 ? &(owner)->model : &(owner)->plain[p])

static void average_score(const zn_eval_result *r, int group, int p, size_t offset, double *out)
{
    int64_t count = 0;
    for (int64_t i = group; i < r->row_count; i += r->group_count)
        count += !isnan(*score_at(SCORES_OF(&r->rows[i], p), offset));
    *out = count ? 0 : NAN;
    const double weight = 1.0 / (double)count;
    for (int64_t i = group; i < r->row_count; i += r->group_count) {
        const double v = *score_at(SCORES_OF(&r->rows[i], p), offset);
        *out += isnan(v) ? 0 : weight * v;
    }
}

/* The mean of the finite ones. */
static void average_psnr(const zn_eval_result *r, int group, int p, zn_scores *out)
{
    double sum = 0;
    out->psnr_infinite = 0;
    for (int64_t i = group; i < r->row_count; i += r->group_count) {
        const zn_scores *s = SCORES_OF(&r->rows[i], p);
        out->psnr_infinite += s->psnr_infinite;
        sum += s->psnr_infinite ? 0 : s->psnr;
    }
    const int64_t finite = r->groups[group].pictures - out->psnr_infinite;
    out->psnr = finite ? sum / (double)finite : INFINITY;
}

void zn_eval_average(zn_eval_result *r)
{
    for (int64_t i = 0; i < r->row_count; i++)
        r->groups[i % r->group_count].pictures++;
    for (int64_t i = 0; i < r->row_count; i++) {
        zn_eval_group *g = &r->groups[i % r->group_count];
        g->ms += 1.0 / (double)g->pictures * r->rows[i].ms;
    }
    for (int g = 0; g < r->group_count; g++)
        for (int p = -1; p < ZN_PLAIN_COUNT; p++) {
            zn_scores *s = SCORES_OF(&r->groups[g], p);
            average_psnr(r, g, p, s);
            for (size_t k = 0; k < sizeof averaged / sizeof *averaged; k++)
                average_score(r, g, p, averaged[k], score_at(s, averaged[k]));
        }
}
