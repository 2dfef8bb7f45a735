/* Encodes images as the frames of a video and decodes them again, one at a time:  02_clip MODEL OUT FRAME...
 * MODEL is a video autoencoder, such as Wan's or TAEHV; results are OUT1.png, OUT2.png, ... */
#include <stdio.h>
#include <zenith/zenith.h>

typedef struct results {
    const char *name;
    int count;
} results;

static zn_status write_one(void *user, const zn_image *image)
{
    results *r = (results *)user;
    char path[1024];
    snprintf(path, sizeof path, "%s%d.png", r->name, ++r->count);
    return zn_image_write(path, image, NULL);
}

int main(int argc, char **argv)
{
    zn_model *model = NULL;
    zn_video *video = NULL;
    zn_latent *clip = NULL;
    if (argc < 4) {
        fprintf(stderr, "usage: %s MODEL OUT FRAME...\n", argv[0]);
        return 2;
    }
    results out = { argv[2], 0 };
    int ok = zn_model_find_released(argv[1], &model) == ZN_OK && zn_video_new(model, NULL, &video) == ZN_OK;
    for (int i = 3; i < argc && ok; i++) {
        zn_image *image = NULL;
        ok = zn_image_read(argv[i], NULL, &image) == ZN_OK && zn_video_encode(video, image, &clip) == ZN_OK;
        zn_image_free(image);
    }
    ok = ok && zn_video_encode_end(video, &clip) == ZN_OK && zn_video_decode(video, clip, 8, write_one, &out) == ZN_OK;
    if (ok)
        printf("%d images -> %d latent frames -> %d images\n", argc - 3, clip->frames, out.count);
    else
        fprintf(stderr, "%s\n", zn_error_text());
    zn_latent_free(clip);
    zn_video_free(video);
    zn_model_free(model);
    return ok ? 0 : 1;
}
