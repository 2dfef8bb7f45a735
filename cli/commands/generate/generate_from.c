/* zenith generate --from: the settings and files of an image that was generated before. */
#include "commands/generate/generate.h"

#include "commands.h"
#include "files/files.h"
#include "ui/report.h"

#include <stdlib.h>
#include <string.h>

int split_lora(const char *text, char **path, double *strength)
{
    const char *colon = strrchr(text, ':');
    char *end = NULL;
    *strength = 1;
    *path = must_copy(text);
    if (!colon || file_exists(text))
        return 1;
    const double number = strtod(colon + 1, &end);
    (*path)[colon - text] = 0;
    if (end != colon + 1 && !*end)
        return *strength = number, 1;
    const int is_file = file_exists(*path);
    (*path)[colon - text] = ':'; /* may be part of the name of a file that does not exist */
    return !is_file;
}

/* A stored path is relative to where the program ran; if there is nothing here, the folder of the image may have it. */
static void look_beside(const char *image, char **path)
{
    const char *slash = strrchr(image, '/');
    if (!*path || **path == '/' || !slash || file_exists(*path))
        return;
    char *beside = must_print("%.*s%s", (int)(slash - image) + 1, image, *path);
    if (file_exists(beside))
        parameters_set(path, beside);
    free(beside);
}

static void look_for_lora(const char *image, char **lora)
{
    char *path;
    double strength;
    (void)split_lora(*lora, &path, &strength);
    const size_t length = strlen(path);
    char *rest = must_copy(*lora + length);
    look_beside(image, &path);
    char *whole = must_print("%s%s", path, rest);
    parameters_set(lora, whole);
    free(whole);
    free(rest);
    free(path);
}

static void look_for_files(const char *image, parameters *p)
{
    char **const files[] = {
        &p->model, &p->transformer, &p->text_encoder, &p->vae, &p->tokenizer, &p->image, &p->mask
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        look_beside(image, files[i]);
    for (int i = 0; p->loras[i]; i++)
        look_for_lora(image, &p->loras[i]);
}

int generate_read_from(const options *o, parameters *out)
{
    const char *path = generate_input(o->from);
    zn_image_metadata m = { 0 };
    if (!path)
        return EXIT_FAILURE;
    int status = zn_image_read_metadata(path, &m) == ZN_OK ? 0 : EXIT_FAILURE;
    if (status)
        complain_about(path);
    else if (!m.parameters || !parameters_parse(m.parameters, out)) {
        complain("%s: it does not say how it was generated", path);
        status = EXIT_FAILURE;
    }
    if (!status && out->sampler && strcmp(out->sampler, "Euler"))
        note(o, "%s was made with the sampler %s; Euler is used", path, out->sampler);
    if (!status)
        look_for_files(path, out);
    zn_image_metadata_free(&m);
    return status;
}

static int complain_of_stored(const options *o, const char *path, const char *needed)
{
    if (!strcmp(path, "-"))
        complain("%s was made with an image from standard input; give it with %s", o->from, needed);
    else
        complain("%s: no such file; %s names it, so give it with %s", path, o->from, needed);
    return EXIT_FAILURE;
}

int generate_check_from(const options *o, const parameters *p)
{
    if (!o->image && p->image && !file_exists(p->image))
        return complain_of_stored(o, p->image, "--image");
    if (!o->mask && p->mask && !file_exists(p->mask))
        return complain_of_stored(o, p->mask, "--mask");
    for (int i = 0; !o->loras[0] && p->loras[i]; i++) {
        double strength;
        char *path;
        (void)split_lora(p->loras[i], &path, &strength);
        const int named = !strchr(path, '/') && !strchr(path, '.'); /* the library looks for names */
        const int status = named || file_exists(path) ? 0 : complain_of_stored(o, path, "--lora");
        free(path);
        if (status)
            return status;
    }
    return 0;
}
