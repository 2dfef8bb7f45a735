/* Held-out pictures, damaged where the task is to restore them. */
#include "train/data/held_out.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "io/image/pixels/pixels.h"
#include "models/zenith/zenith.h"
#include "train/data/corrupt.h"
#include "train/recipe/tasks.h"

#include <string.h>

enum { PICTURES = 16, CLIPS = 4 };

/* Repeats the last image for every task, with one damage of each; an upscaler has only one. */
static zn_status damage(zn_held_out *h, int size)
{
    const size_t pixels = (size_t)size * (size_t)size;
    for (int task = 0; task < h->tasks; task++) {
        const size_t at = (size_t)(h->count - 1 + task);
        zn_draw d = { .seed = at, .what = { .damage = ZN_DAMAGE_SCALE, .amount = 2 } };
        if (h->tasks > 1)
            zn_corruption_of_task((zn_task)(ZN_TASK_DENOISE + task), 1, &d.what);
        if (task > 0)
            memcpy(h->pictures + 3 * pixels * at, h->pictures + 3 * pixels * (at - 1), sizeof(float) * 3 * pixels);
        ZN_TRY(
            zn_restore_input_of(h->pictures + 3 * pixels * at, size, &d, h->inputs + ZN_RESTORE_INPUTS * pixels * at));
    }
    h->count += h->tasks - 1;
    return ZN_OK;
}

/* Damages that a restorer is tried on: one of each task, as far as this build can do them. */
static int tasks_of(const zn_recipe *r)
{
    zn_corruption c;
    if (zn_train_task_of(r)->inputs != ZN_INPUTS_DEGRADED || r->damage.kind == ZN_DAMAGE_MIX_UPSCALE)
        return 1;
    return zn_corruption_of_task(ZN_TASK_JPEG, 1, &c) ? ZN_TASKS : ZN_TASKS - 1;
}

static void take_centre(const zn_image *image, int held, int index, int size, float *out)
{
    const zn_image frame = zn_picture_frame(image, held, index);
    const zn_region centre = { (frame.width - size) / 2, (frame.height - size) / 2, size, size };
    zn_pixels_to_float(&frame, centre, out, (size_t)size * 3);
}

zn_status zn_held_out_new(zn_held_out *h, const zn_dataset *set, const zn_recipe *r, const zn_skip *skip)
{
    const bool restores = zn_train_task_of(r)->inputs == ZN_INPUTS_DEGRADED;
    const size_t pixels = (size_t)r->size * (size_t)r->size;
    *h = (zn_held_out){ .tasks = tasks_of(r) };
    const int frames = r->frames ? r->frames : 1;
    const size_t most = (size_t)((frames > 1 ? CLIPS : PICTURES) * h->tasks), each = pixels * 3 * (size_t)frames;
    ZN_TRY(zn_alloc_for("held-out pictures", sizeof(float) * each * most, (void **)&h->pictures));
    if (restores)
        ZN_TRY(
            zn_alloc_for("held-out pictures", sizeof(float) * pixels * ZN_RESTORE_INPUTS * most, (void **)&h->inputs));
    for (int64_t i = 0; i < zn_dataset_count(set) && h->count < (int)most; i++) {
        const int held = zn_dataset_frames(set, i);
        if (!zn_dataset_held_out(set, i, r->held_out) || held < frames)
            continue;
        zn_image *image;
        ZN_TRY(zn_picture_read(set, i, skip, &image));
        if (!image)
            continue;
        for (int t = 0; t < frames; t++)
            take_centre(image, held, t, r->size, h->pictures + pixels * 3 * (size_t)(h->count * frames + t));
        h->count++;
        zn_image_free(image);
        if (restores)
            ZN_TRY(damage(h, r->size));
    }
    return ZN_OK;
}

void zn_held_out_free(zn_held_out *h)
{
    zn_free(h->pictures);
    zn_free(h->inputs);
    *h = (zn_held_out){ 0 };
}
