/* Encodes an image and decodes it again:  01_roundtrip MODEL IN.png OUT.png
 * MODEL is a name that `zenith models` lists, such as the bundled zenith-r, or a file or folder of weights. */
#include <stdio.h>
#include <string.h>
#include <zenith/zenith.h>

int main(int argc, char **argv)
{
    zn_model *model = NULL;
    zn_codec *codec = NULL;
    zn_image *image = NULL, *result = NULL;
    zn_latent *latent = NULL;
    zn_image_difference difference;

    if (argc != 4) {
        fprintf(stderr, "usage: %s MODEL IN OUT\n", argv[0]);
        return 2;
    }
    const int seeded = strncmp(argv[1], "random:", 7) == 0; /* random weights, for tests */
    const int ok = (seeded ? zn_model_random(argv[1] + 7, 1, &model) : zn_model_find(argv[1], &model)) == ZN_OK &&
                   zn_codec_new(model, NULL, &codec) == ZN_OK && zn_image_read(argv[2], NULL, &image) == ZN_OK &&
                   zn_encode(codec, image, &latent) == ZN_OK && zn_decode(codec, latent, &result) == ZN_OK &&
                   zn_image_write(argv[3], result, NULL) == ZN_OK &&
                   zn_image_compare(image, result, &difference) == ZN_OK;
    if (ok)
        printf("%dx%d -> %dx%dx%d -> PSNR %.2f dB\n", image->width, image->height, latent->width, latent->height,
               latent->channels, difference.psnr);
    else
        fprintf(stderr, "%s\n", zn_error_text());
    zn_image_free(result);
    zn_image_free(image);
    zn_latent_free(latent);
    zn_codec_free(codec);
    zn_model_free(model);
    return ok ? 0 : 1;
}
