/* Perceptual distances and kept detail, as JSON and as text. */
#include "ui/scores.h"

#include "ui/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *measured(double v, int decimals, char text[32])
{
    if (isnan(v))
        snprintf(text, 32, "-");
    else
        snprintf(text, 32, "%.*f", decimals, v);
    return text;
}

static void shares_json(json *j, const char *key, const double *kept)
{
    json_open(j, key, '[');
    for (int i = 0; i < ZN_SCORE_BANDS; i++)
        json_real(j, NULL, kept[i]);
    json_close(j, ']');
}

void perception_json(json *j, const zn_scores *s)
{
    json_real(j, "lpips_alex", s->lpips_alex);
    json_real(j, "lpips_squeeze", s->lpips_squeeze);
    shares_json(j, "luma_kept", s->luma_kept);
    shares_json(j, "chroma_kept", s->chroma_kept);
}

void note_few_images(const options *o, int64_t count)
{
    enum { ENOUGH = 1000 };
    if (count < ENOUGH)
        note(
            o,
            "the distance of sets is meant for %d images or more; of %lld it is too large, and compares only with sets "
            "of as many",
            ENOUGH, (long long)count);
}

/* "96.1, 99.0, 100.2 % of fine to coarse detail" */
static void shares_text(facts *f, const char *key, const double *kept)
{
    char text[96] = "";
    for (int i = 0; i < ZN_SCORE_BANDS && !isnan(kept[i]); i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%.1f", i ? ", " : "", 100 * kept[i]);
    if (!text[0])
        return;
    snprintf(text + strlen(text), sizeof text - strlen(text), " %% of fine to coarse detail");
    fact_text(f, key, text);
}

void fact_perception(facts *f, const zn_scores *s)
{
    if (f->json) {
        json_real(&f->out, "ms_ssim", s->ms_ssim);
        perception_json(&f->out, s);
        return;
    }
    if (!isnan(s->ms_ssim))
        fact_real(f, "ms_ssim", s->ms_ssim, 5, "");
    if (!isnan(s->lpips_alex))
        fact_real(f, "lpips_alex", s->lpips_alex, 4, "");
    if (!isnan(s->lpips_squeeze))
        fact_real(f, "lpips_squeeze", s->lpips_squeeze, 4, "");
    shares_text(f, "luma_kept", s->luma_kept);
    shares_text(f, "chroma_kept", s->chroma_kept);
}
