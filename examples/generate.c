/* Generates an image from a prompt:  generate MODEL "a red fox in the snow" OUT.png [SEED [SIDE]]
 * MODEL is a folder with Z-Image-Turbo as it is published (docs/generate.md), or the name of a model that is found;
 * with the bundled zenith-mini, give a SIDE of 128. */
#include <stdio.h>
#include <stdlib.h>
#include <zenith/zenith.h>

static int show(void *user, const zn_generation_progress *p)
{
    static const char *const stages[] = { "reading the prompt", "reading the image", "drawing", "decoding" };
    (void)user;
    fprintf(stderr, "\r%3.0f %%  %-20s", 100 * p->fraction, stages[p->stage]);
    return 0; /* anything else cancels */
}

int main(int argc, char **argv)
{
    zn_generator *generator = NULL;
    zn_image *image = NULL;
    if (argc < 4 || argc > 6) {
        fprintf(stderr, "usage: %s MODEL PROMPT OUT [SEED [SIDE]]\n", argv[0]);
        return 2;
    }
    const zn_generator_files files = { .size = sizeof files, .model = argv[1] };
    const zn_generation request = { .size = sizeof request,
                                    .prompt = argv[2],
                                    .seed = argc > 4 ? strtoull(argv[4], NULL, 10) : 0,
                                    .width = argc > 5 ? atoi(argv[5]) : 512,
                                    .height = argc > 5 ? atoi(argv[5]) : 512,
                                    .progress = show };
    const int ok = zn_generator_open(&files, NULL, &generator) == ZN_OK &&
                   zn_generate(generator, &request, &image) == ZN_OK && zn_image_write(argv[3], image, NULL) == ZN_OK;
    fprintf(stderr, "\n");
    if (!ok)
        fprintf(stderr, "%s\n", zn_error_text());
    zn_image_free(image);
    zn_generator_free(generator);
    return ok ? 0 : 1;
}
