/* Clips: the means of their frames' scores, and flicker. */
#include "pipeline/eval/eval_clips.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "pipeline/eval/eval_score.h"
#include "train/data/pictures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A clip on its way back. */
typedef struct comparing {
    zn_scorer *scorer;
    const zn_image *strip;
    int frames, done;
    zn_image *before; /* the result's last frame */
    double flicker, scoring_ms;
    zn_scores *scores; /* [frames] */
} comparing;

/* Mean absolute difference, in 8-bit steps, of how the result changes from one frame to the next and how the original
 * does: 0 for one that is off by the same in all frames. */
static double change_error(const zn_image *x0, const zn_image *x1, const zn_image *y0, const zn_image *y1)
{
    const uint8_t *a = x0->pixels, *b = x1->pixels, *c = y0->pixels, *d = y1->pixels;
    const size_t count = (size_t)x0->width * (size_t)x0->height * 3;
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += abs((d[i] - c[i]) - (b[i] - a[i]));
    return (double)sum / (double)count;
}

static zn_status take_frame(void *user, const zn_image *made)
{
    comparing *c = user;
    const double start = zn_clock_ms();
    if (c->done == c->frames)
        return ZN_OK;
    const zn_image frame = zn_picture_frame(c->strip, c->frames, c->done);
    ZN_TRY(zn_scorer_compare(c->scorer, &frame, made, &c->scores[c->done]));
    if (c->done) {
        const zn_image last = zn_picture_frame(c->strip, c->frames, c->done - 1);
        c->flicker += change_error(&last, &frame, c->before, made);
    } else {
        ZN_TRY(zn_image_new(made->width, made->height, 8, &c->before));
    }
    memcpy(c->before->pixels, made->pixels, (size_t)made->width * (size_t)made->height * 3);
    c->done++;
    c->scoring_ms += zn_clock_ms() - start;
    return ZN_OK;
}

static zn_scores mean_scores(const comparing *c)
{
    zn_scores s = zn_mean_scores(c->scores, sizeof *c->scores, c->done);
    s.psnr_infinite = isinf(s.psnr);
    s.flicker = c->done > 1 ? c->flicker / (c->done - 1) : NAN;
    return s;
}

static zn_status check(const zn_model_info *model, const zn_image *strip, int frames)
{
    if (frames < 2 || strip->height % frames)
        return ZN_FAIL(ZN_EINVALID, "it is an image, not a clip of a data set made with zenith dataset build --clips");
    if (model->clip_frames && (frames - 1) % model->clip_frames)
        return ZN_FAIL(ZN_EINVALID, "it has %d frames, and %s gives back clips of 1 + %d n frames", frames,
                       model->architecture, model->clip_frames);
    return strip->bits == 8 ? ZN_OK : ZN_FAIL(ZN_EINVALID, "a clip has 8 bits, not %d", strip->bits);
}

bool zn_eval_has_clips(const zn_dataset *data)
{
    for (int64_t i = 0; i < zn_dataset_count(data); i++)
        if (zn_dataset_frames(data, i) > 1)
            return true;
    return false;
}

zn_status zn_eval_clip(zn_video *video, zn_scorer *scorer, const zn_model_info *model, const zn_image *strip,
                       int frames, zn_eval_row *row)
{
    comparing c = { .scorer = scorer, .strip = strip, .frames = frames };
    zn_latent *latent = NULL;
    ZN_TRY(check(model, strip, frames));
    row->height = strip->height / frames;
    ZN_TRY(zn_alloc_for("scores", sizeof *c.scores * (size_t)frames, (void **)&c.scores));
    const double start = zn_clock_ms();
    zn_status status;
    for (int i = 0; i < frames; i++) {
        const zn_image frame = zn_picture_frame(strip, frames, i);
        ZN_TRY_DONE(zn_video_encode(video, &frame, &latent));
    }
    ZN_TRY_DONE(zn_video_encode_end(video, &latent));
    status = zn_video_decode(video, latent, 8, take_frame, &c);
    zn_video_decode_end(video);
    ZN_TRY_DONE(status);
    row->ms = zn_clock_ms() - start - c.scoring_ms;
    row->model = mean_scores(&c);
done:
    zn_latent_free(latent);
    zn_image_free(c.before);
    zn_free(c.scores);
    return status;
}
