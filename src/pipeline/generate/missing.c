/* What a generator lacks, in one sentence that names the files to download. */
#include "pipeline/generate/missing.h"

#include "base/fail.h"
#include "base/file.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *option, *files;
} parts[ZN_GENERATOR_PARTS] = {
    { "transformer", "--transformer",
      "z_image_turbo-Q4_K.gguf (3.9 GB), z_image_turbo_int8_convrot.safetensors (6.2 GB) or "
      "z_image_turbo_bf16.safetensors (12.3 GB)" },
    { "text encoder", "--text-encoder",
      "Qwen3-4B-Q4_K_M.gguf (2.5 GB), qwen_3_4b_fp8_mixed.safetensors (5.6 GB) or qwen_3_4b.safetensors (8.0 GB)" },
    { "autoencoder", "--vae", "ae.safetensors (0.3 GB)" },
    { "tokenizer", "--tokenizer", "tokenizer.json of Qwen3-4B (11 MB; a .gguf text encoder has its own)" },
    { "preview network", "", "taef1_decoder.pth (5 MB)" },
};

const char *zn_part_label(zn_generator_part part) { return parts[part].name; }
const char *zn_part_option(zn_generator_part part) { return parts[part].option; }
const char *zn_part_advice(zn_generator_part part) { return parts[part].files; }

/* Appends to a list: "a", "a and b", "a, b and c"; the separators may be others. */
static void append(char *list, size_t size, const char *item, const char *separator)
{
    const size_t used = strlen(list);
    snprintf(list + used, size - used, "%s%s", used ? separator : "", item);
}

zn_status zn_parts_missing(const zn_generator_paths *p, const char *where, const char *unreadable)
{
    char names[160] = "", files[640] = "", options[160] = "";
    int count = 0, last = -1;
    for (int part = 0; part <= ZN_GENERATOR_TOKENIZER; part++) {
        count += !p->part[part][0];
        last = p->part[part][0] ? last : part;
    }
    for (int part = 0; part <= last; part++) {
        if (p->part[part][0])
            continue;
        char none[32];
        snprintf(none, sizeof none, "no %s", parts[part].name);
        append(names, sizeof names, none, part == last ? " and " : ", ");
        append(files, sizeof files, parts[part].files, part == last ? "; and " : "; ");
        append(options, sizeof options, parts[part].option, part == last ? " and " : ", ");
    }
    const bool folder = zn_is_folder(where);
    if (!count)
        return ZN_OK;
    if (count == ZN_GENERATOR_TOKENIZER + 1 && !unreadable[0])
        return ZN_FAIL(ZN_ENOTFOUND,
                       "%s holds nothing of a model: no transformer, no text encoder, no autoencoder and no tokenizer; "
                       "docs/generate.md lists the files to download",
                       where);
    if (unreadable[0])
        return ZN_FAIL(ZN_EFORMAT, "%s has %s that can be used: %s", where, names, unreadable);
    return ZN_FAIL(ZN_ENOTFOUND, "%s has %s%s: put %s %s, or name %s with %s", where, names, folder ? "" : " beside it",
                   files, folder ? "into it" : "there", count > 1 ? "them" : "it", options);
}

bool zn_widths_fit(const zn_part_widths *part, const zn_part_widths *transformer)
{
    const bool captions = !transformer->captions || !part->captions || part->captions == transformer->captions;
    return captions && (!transformer->latents || !part->latents || part->latents == transformer->latents);
}

zn_status zn_part_misfit(zn_generator_part part, const char *file, const zn_part_widths *width,
                         const char *transformer_file, const zn_part_widths *transformer)
{
    if (part == ZN_GENERATOR_TEXT)
        return ZN_FAIL(ZN_ESHAPE,
                       "%s: this text encoder gives %d channels, but the transformer %s takes %d; name one that "
                       "fits with --text-encoder",
                       file, width->captions, transformer_file, transformer->captions);
    return ZN_FAIL(ZN_ESHAPE,
                   "%s: this autoencoder has latents of %d channels, but the transformer %s makes %d; name one that "
                   "fits with --vae",
                   file, width->latents, transformer_file, transformer->latents);
}
