#include "files/film_pipe.h"

#include "ui/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void film_report_faults(const zn_film_faults *faults, const char *name, film_remark_fn tell, void *user)
{
    const int one = faults->damaged == 1;
    if (faults->lost) {
        char *text = must_print("%s: %lld frame%s could not be decoded and %s missing", name, (long long)faults->lost,
                                faults->lost == 1 ? "" : "s", faults->lost == 1 ? "is" : "are");
        tell(user, text);
        free(text);
    }
    if (faults->damaged) {
        char *text = must_print("%s: %lld frame%s of it could not be decoded without errors: parts of %s are wrong",
                                name, (long long)faults->damaged, one ? "" : "s", one ? "it" : "them");
        tell(user, text);
        free(text);
    }
    if (faults->interlaced) {
        char *text = must_print("%s: %lld of its frames are interlaced and are taken as whole images: deinterlace it "
                                "first, as with ffmpeg -vf bwdif",
                                name, (long long)faults->interlaced);
        tell(user, text);
        free(text);
    }
    if (faults->missing > 0) {
        char *text =
            must_print("%s: the file ends %.1f seconds before the duration that it states: it seems to be cut off",
                       name, faults->missing);
        tell(user, text);
        free(text);
    }
}

int clip_step(const zn_model_info *info) { return info->clip_frames ? info->clip_frames : 1; }

zn_status film_begin(film_pipe *p)
{
    p->left_out = must_copy("");
    zn_status status = zn_film_describe(p->input, &p->info);
    if (status == ZN_OK)
        status = zn_film_open(p->input, &p->film);
    if (status == ZN_OK)
        zn_film_keep_bits(p->film);
    return status;
}

static void hold(film_pipe *p, zn_image *image)
{
    if (p->held == p->capacity) {
        p->capacity = p->capacity ? 2 * p->capacity : 8;
        p->waiting = must_alloc(p->waiting, sizeof(zn_image *) * (size_t)p->capacity);
    }
    p->waiting[p->held++] = image;
}

zn_status film_next(film_pipe *p, const zn_image **out)
{
    zn_image *image = NULL;
    const zn_status status = zn_film_next(p->film, &image);
    *out = image;
    if (!image)
        return status;
    hold(p, image);
    const int64_t number = ++p->read, total = p->info.frames > number ? p->info.frames : number;
    return p->tell && p->tell(p->user, number, total) ? ZN_ECANCELLED : ZN_OK;
}

int film_is_lean(size_t memory, const char *device) { return memory && (!device || !strcmp(device, "cpu")); }

size_t film_bytes(const film_pipe *p, const zn_image *image, int waiting)
{
    const int scale = p->scale ? p->scale : 1, width = image->width * scale, height = image->height * scale;
    const int written = !p->output ? 0 : p->compare ? 3 * width + 2 * ZN_IMAGE_GAP : width;
    const size_t each = (size_t)image->width * (size_t)image->height * 3 * (size_t)image->bits / 8,
                 both = p->compare ? (size_t)written * (size_t)height * 3 * (size_t)image->bits / 8 : 0;
    return zn_film_bytes(p->film, written, height, image->bits) + each * (size_t)waiting + both;
}

static zn_status measure(film_pipe *p, const zn_image *original, const zn_image *result)
{
    zn_image_difference d;
    const zn_status status = zn_image_compare(original, result, &d);
    if (status == ZN_OK) {
        p->mse += pow(10, -d.psnr / 10);
        p->ssim += d.ssim;
    }
    return status;
}

static zn_status write_frame(film_pipe *p, const zn_image *image)
{
    zn_status status = ZN_OK;
    if (!p->output)
        return ZN_OK;
    if (!p->writer)
        status = zn_film_create_from(p->output, p->film, image->width, image->height,
                                     (p->strip ? 0 : ZN_FILM_METADATA) | (p->lean ? ZN_FILM_LEAN : 0), &p->writer);
    return status == ZN_OK ? zn_film_write(p->writer, image) : status;
}

zn_status film_put(film_pipe *p, const zn_image *result)
{
    if (!p->held)
        return ZN_OK;
    zn_image *original = p->waiting[0], *both = NULL;
    memmove(p->waiting, p->waiting + 1, sizeof(zn_image *) * (size_t)--p->held);
    p->width = result->width;
    p->height = result->height;
    zn_status status = p->measure ? measure(p, original, result) : ZN_OK;
    if (status == ZN_OK && p->compare)
        status = zn_image_side_by_side(original, result, &both);
    if (status == ZN_OK)
        status = write_frame(p, both ? both : result);
    p->written += status == ZN_OK;
    zn_image_free(both);
    zn_image_free(original);
    return status;
}

zn_status film_end(film_pipe *p, zn_status status)
{
    if (status == ZN_OK && !p->written)
        status = ZN_EFORMAT;
    if (p->writer) {
        free(p->left_out);
        p->left_out = must_copy(zn_film_left_out(p->writer));
    }
    if (status == ZN_OK && p->writer)
        status = zn_film_finish(p->writer);
    else
        zn_film_drop(p->writer);
    p->writer = NULL;
    for (int i = 0; i < p->held; i++)
        zn_image_free(p->waiting[i]);
    free(p->waiting);
    p->waiting = NULL;
    p->held = p->capacity = 0;
    if (p->film) {
        zn_film_intervals(p->film, &p->shortest, &p->longest);
        zn_film_find_faults(p->film, &p->faults);
    }
    zn_film_close(p->film);
    p->film = NULL;
    return status;
}

void film_free(film_pipe *p) { free(p->left_out); }

/* ---- to latents and back ---- */

static zn_status take(void *user, const zn_image *picture) { return film_put(user, picture); }

/* Encodes an image, and decodes the latent frame that it completes, if any. */
static zn_status pass(film_pipe *p, zn_video *v, const zn_image *image)
{
    zn_latent *z = NULL;
    const int bits = image->bits;
    zn_status status = zn_video_encode(v, image, &z);
    if (status == ZN_OK && z)
        status = zn_video_decode(v, z, bits, take, p);
    zn_latent_free(z);
    return status;
}

/* The last latent frame: made whole by repeating the last image, whose own result is among the last ones. A decoder
 * makes one image of the first latent frame and `each` of each other, so that 1 + n * each images give as many. */
static zn_status pass_last(film_pipe *p, zn_video *v, int each)
{
    const zn_image *last = p->held ? p->waiting[p->held - 1] : NULL;
    zn_image *copy = NULL;
    zn_latent *z = NULL;
    if (!last)
        return ZN_OK;
    zn_status status = zn_image_new(last->width, last->height, last->bits, &copy);
    if (status != ZN_OK)
        return status;
    memcpy(copy->pixels, last->pixels, (size_t)last->width * (size_t)last->height * 3 * (size_t)last->bits / 8);
    copy->grey = last->grey;
    for (int64_t i = p->read; (i - 1) % each && status == ZN_OK; i++)
        status = pass(p, v, copy);
    if (status == ZN_OK)
        status = zn_video_encode_end(v, &z);
    if (status == ZN_OK && z)
        status = zn_video_decode(v, z, copy->bits, take, p);
    zn_latent_free(z);
    zn_image_free(copy);
    return status;
}

zn_status film_code(film_pipe *p, zn_video *v, int each)
{
    const zn_image *image;
    zn_status status;
    while ((status = film_next(p, &image)) == ZN_OK && image) {
        if (p->read == 1)
            zn_video_hold(v, film_bytes(p, image, each + 1));
        if ((status = pass(p, v, image)) != ZN_OK)
            return status;
    }
    return status == ZN_OK ? pass_last(p, v, each) : status;
}
