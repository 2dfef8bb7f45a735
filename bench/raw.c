/* Runs one part of a model on raw numbers, for bench/peers, which compares results of different engines.
 *
 *     raw MODEL encode|decode WIDTHxHEIGHT f32|bf16|f16 THREADS INPUT OUTPUT
 *
 * Pictures are 16-bit RGB, interleaved, native byte order; latents are 32-bit floats, [height][width][channels]. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zenith/zenith.h>

static int fail(const char *what)
{
    fprintf(stderr, "raw: %s\n", what);
    return EXIT_FAILURE;
}

/* Reads exactly `bytes`, or writes them: mode "rb" or "wb". */
static int move_file(const char *path, const char *mode, void *data, size_t bytes)
{
    FILE *f = fopen(path, mode);
    if (!f)
        return 0;
    const size_t done = *mode == 'r' ? fread(data, 1, bytes, f) : fwrite(data, 1, bytes, f);
    return !fclose(f) && done == bytes;
}

static int encode(zn_codec *codec, int width, int height, const char *input, const char *output)
{
    zn_image *image = NULL;
    zn_latent *latent = NULL;
    int status = EXIT_FAILURE;
    if (zn_image_new(width, height, 16, &image) != ZN_OK)
        fail(zn_error_text());
    else if (!move_file(input, "rb", image->pixels, (size_t)width * (size_t)height * 6))
        fail("the input file is missing or too short");
    else if (zn_encode(codec, image, &latent) != ZN_OK)
        fail(zn_error_text());
    else if (!move_file(output, "wb", latent->data,
                        sizeof(float) * (size_t)latent->width * (size_t)latent->height * (size_t)latent->channels))
        fail("the output cannot be written");
    else
        status = 0;
    zn_image_free(image);
    zn_latent_free(latent);
    return status;
}

static int decode(zn_codec *codec, const zn_model_info *info, int width, int height, const char *input,
                  const char *output)
{
    zn_latent *latent = NULL;
    zn_image *image = NULL;
    const int w = width / info->downscale, h = height / info->downscale;
    int status = EXIT_FAILURE;
    if (zn_latent_new(w, h, info->latent_channels, &latent) != ZN_OK)
        fail(zn_error_text());
    else if (!move_file(input, "rb", latent->data,
                        sizeof(float) * (size_t)w * (size_t)h * (size_t)info->latent_channels))
        fail("the input file is missing or too short");
    else if (zn_decode_bits(codec, latent, 16, &image) != ZN_OK)
        fail(zn_error_text());
    else if (!move_file(output, "wb", image->pixels, (size_t)image->width * (size_t)image->height * 6))
        fail("the output cannot be written");
    else
        status = 0;
    zn_latent_free(latent);
    zn_image_free(image);
    return status;
}

int main(int argc, char **argv)
{
    int width = 0, height = 0;
    if (argc != 8 || sscanf(argv[3], "%dx%d", &width, &height) != 2)
        return fail("usage: raw MODEL encode|decode WIDTHxHEIGHT f32|bf16|f16 THREADS INPUT OUTPUT");
    zn_model *model = NULL;
    zn_codec *codec = NULL;
    const zn_options options = { .threads = atoi(argv[5]),
                                 .precision = !strcmp(argv[4], "bf16")  ? ZN_PRECISION_BF16
                                              : !strcmp(argv[4], "f16") ? ZN_PRECISION_F16
                                                                        : ZN_PRECISION_F32 };
    int status;
    if (zn_model_open(argv[1], &model) != ZN_OK || zn_codec_new(model, &options, &codec) != ZN_OK)
        status = fail(zn_error_text());
    else if (!strcmp(argv[2], "encode"))
        status = encode(codec, width, height, argv[6], argv[7]);
    else
        status = decode(codec, zn_model_info_of(model), width, height, argv[6], argv[7]);
    zn_codec_free(codec);
    zn_model_free(model);
    return status;
}
