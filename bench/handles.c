/* What a second handle costs: N codecs of one model, each with its first encoding and decoding, then another size; with
 * a context of each their own, or one for all. Times, and how much memory the process grew by.
 *
 *     handles MODEL own|shared [N [SIDE]] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zenith/zenith.h>

enum { MOST = 100 };

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* One number of /proc/self/status. */
static long status_of(const char *name)
{
    char line[256];
    long value = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, name, strlen(name)))
            value = atol(line + strlen(name) + 1);
    if (f)
        fclose(f);
    return value;
}

static zn_status open_model(const char *name, zn_model **out)
{
    return strncmp(name, "random:", 7) ? zn_model_find(name, out) : zn_model_random(name + 7, 1, out);
}

static int round_trip(zn_codec *codec, int side)
{
    zn_image *image = NULL, *back = NULL;
    zn_latent *latent = NULL;
    const int good = zn_image_new(side, side, 8, &image) == ZN_OK && zn_encode(codec, image, &latent) == ZN_OK &&
                     zn_decode(codec, latent, &back) == ZN_OK;
    zn_image_free(image);
    zn_image_free(back);
    zn_latent_free(latent);
    return good;
}

/* All codecs at one size; false if one fails. */
static int run_all(zn_codec **codec, int count, int side, const char *what)
{
    const double start = now_ms();
    for (int i = 0; i < count; i++)
        if (!round_trip(codec[i], side))
            return 0;
    printf("%s: %.1f ms, %ld MiB, %ld threads\n", what, now_ms() - start, status_of("VmRSS:") / 1024,
           status_of("Threads:"));
    return 1;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return fprintf(stderr, "usage: handles MODEL own|shared [N [SIDE]]\n"), 2;
    const int count = argc > 3 ? atoi(argv[3]) : 10, side = argc > 4 ? atoi(argv[4]) : 64;
    zn_codec *codec[MOST] = { NULL };
    zn_context *context = NULL;
    zn_model *model = NULL;
    int good = count > 0 && count <= MOST && open_model(argv[1], &model) == ZN_OK;
    if (good && !strcmp(argv[2], "shared"))
        good = zn_context_new(0, &context) == ZN_OK;
    for (int i = 0; i < count && good; i++)
        good = zn_codec_new(model, &(zn_options){ .context = context }, &codec[i]) == ZN_OK;
    good = good && run_all(codec, count, side, "first size") && run_all(codec, count, 2 * side, "second size") &&
           run_all(codec, count, side, "first size again");
    if (!good)
        fprintf(stderr, "handles: %s\n", zn_error_text());
    for (int i = 0; i < MOST; i++)
        zn_codec_free(codec[i]);
    zn_context_free(context);
    zn_model_free(model);
    return !good;
}
