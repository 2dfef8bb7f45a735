/* tinymodel FOLDER [LAYOUT]: writes a model for `zenith generate` with small random networks. Without a layout, one
 * that is very small, for speed, in the layout of diffusers. Layouts, all of the same weights: diffusers (in shards),
 * comfy, comfy-fp8, comfy-scaled (FP8 with scales) and comfy-int8 (ConvRot). */
#include "tiny.h"
#include "tiny_layouts.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        tiny_form form;
    } comfy[] = { { "comfy", TINY_F32 },
                  { "comfy-fp8", TINY_FP8 },
                  { "comfy-scaled", TINY_FP8_SCALED },
                  { "comfy-int8", TINY_CONVROT } };
    if (argc == 2)
        return tiny_model(argv[1]), 0;
    if (argc == 3 && !strcmp(argv[2], "diffusers"))
        return tiny_diffusers(argv[1]), 0;
    for (size_t i = 0; argc == 3 && i < sizeof comfy / sizeof *comfy; i++)
        if (!strcmp(argv[2], comfy[i].name))
            return tiny_comfy(argv[1], comfy[i].form), 0;
    fputs("usage: tinymodel FOLDER [diffusers|comfy|comfy-fp8|comfy-scaled|comfy-int8]\n", stderr);
    return 2;
}
