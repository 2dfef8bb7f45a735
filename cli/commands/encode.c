/* zenith encode: encodes image files to latent files. */
#include "commands.h"
#include "files/encoded.h"
#include "session/batch.h"
#include "session/clip.h"
#include "session/diffusion.h"
#include "session/film.h"
#include "session/latents.h"
#include "ui/report.h"
#include "ui/show.h"

#include <stdio.h>
#include <string.h>

static int can_write(const char *path) { return has_extension(path, TENSOR_FILES " png"); }

static zn_status work(session *s, const job *item, json *j, char *summary, size_t size)
{
    const options *o = s->o;
    const zn_image_read_options reading = { .background = { o->background[0], o->background[1], o->background[2] } };
    zn_image *image = NULL;
    zn_latent *latent = NULL;
    double ms = 0;
    if (s->diffusion && has_extension(item->kind, "latent")) {
        complain("%s: ComfyUI's .latent files hold latents of images, and %s makes conditions: write .safetensors or "
                 ".npy",
                 item->input, s->info->architecture);
        return ZN_EUNSUPPORTED;
    }
    zn_status status = read_image(o, item->input, &reading, &image);
    if (status == ZN_OK) {
        if (s->diffusion)
            diffusion_remark_size(s, item->input, image);
        ms = now_ms();
        status = s->diffusion ? diffusion_encode(s, image, &latent) : zn_encode(s->codec, image, &latent);
        ms = now_ms() - ms;
    }
    if (status == ZN_OK && s->codec && scale_for_writing(s, item->kind, latent)) {
        status = ZN_EINVALID;
        goto done;
    }
    if (status == ZN_OK)
        status = write_latents(item, (const zn_latent *const *)&latent, 1);
    if (status != ZN_OK) {
        complain_about(item->input);
        goto done;
    }
    session_explain(s);
    if (o->json)
        json_encoded(j, latent, ms);
    snprintf(summary, size, "%dx%d -> %dx%dx%d  %.1f ms", image->width, image->height, latent->width, latent->height,
             latent->channels, ms);
    if (o->show)
        show_latent(o, latent);
done:
    zn_image_free(image);
    zn_latent_free(latent);
    return status;
}

int encode_run(const options *o)
{
    const batch b = {
        .rules = { "images", is_image_file, "safetensors", can_write, ".safetensors, .npy, .latent or .png" },
        .verb = "encode",
        .work = work,
        .needs = NEED_ENCODER | (o->clip || o->batch ? 0 : TAKE_DIFFUSION),
    };
    if (o->clip && o->batch)
        return usage_error("encode",
                           "--clip encodes frames of one video and --batch separate images: give only one of them");
    if (!o->clip && names_video(o))
        return usage_error("encode", "a video is encoded with --clip");
    if (o->blend && !o->clip)
        return usage_error("encode", "--blend is for videos: it needs --clip");
    if (o->clip)
        return encode_clip_run(o, &b);
    if (o->batch)
        return encode_batch_run(o, &b);
    return batch_run(o, &b);
}
