/* Finds the files of a generator. Networks are recognised by their tensors, whatever the files are called:
 *
 *     z-image-turbo/                       diffusers: transformer/ text_encoder/ vae/ tokenizer/, shards with an index
 *     ComfyUI/models/                      diffusion_models/ (or unet/) text_encoders/ (or clip/) vae/ vae_approx/
 *     folder/                              the files themselves, .safetensors or .gguf
 *     folder/z_image_turbo-Q4_K_M.gguf     one of them, the others beside it */
#include "pipeline/generate/files.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/text.h"
#include "io/weights/reader.h"
#include "models/qwen3/qwen3.h"
#include "models/zimage/zimage.h"
#include "pipeline/generate/generate.h"
#include "pipeline/generate/missing.h"
#include "pipeline/generate/part_index.h"
#include "pipeline/model/open.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_PATH = sizeof((zn_generator_paths *)0)->part[0], MAX_BASES = 12 };
typedef char path[MAX_PATH];

static bool join(char *out, const char *folder, const char *name)
{
    const int length = snprintf(out, MAX_PATH, "%s%s%s", folder, *name ? "/" : "", name);
    return length > 0 && length < MAX_PATH;
}

/* "." for a name without a folder. */
static void folder_of(const char *file, char *out)
{
    const char *slash = strrchr(file, '/');
    snprintf(out, MAX_PATH, "%.*s", slash ? (int)(slash - file) + !(slash - file) : 1, slash ? file : ".");
}

/* ---- recognition ---- */

static bool is_transformer(const zn_part_files *p, zn_part_widths *w)
{
    zn_zimage_form k;
    zn_zimage_naming naming;
    char prefix[128]; /* Lumina 2 has the same names, except for this one */
    if (!zn_find_prefix(p->files, p->count, "x_pad_token", prefix, sizeof prefix) ||
        zn_zimage_recognise(p->files, p->count, p->config.root, &k, &naming) != ZN_OK)
        return false;
    *w = (zn_part_widths){ k.caption, k.channels };
    return true;
}

static bool is_text(const zn_part_files *p, zn_part_widths *w)
{
    zn_qwen3_form k;
    zn_qwen3_naming naming;
    if (zn_qwen3_recognise(p->files, p->count, p->config.root, &k, &naming) != ZN_OK)
        return false;
    *w = (zn_part_widths){ .captions = k.hidden };
    return true;
}

static bool is_vae(const zn_part_files *p, zn_part_widths *w)
{
    int channels;
    if (zn_generator_check_vae(p, &channels) != ZN_OK)
        return false;
    *w = (zn_part_widths){ .latents = channels };
    return true;
}

/* Does a file, or the shards of an index, hold this network? What cannot be read may be anything: it does not. */
static bool holds(const char *file, zn_generator_part part, zn_part_widths *w)
{
    static bool (*const is[])(const zn_part_files *, zn_part_widths *) = { is_transformer, is_text, is_vae };
    zn_part_files p;
    if (zn_part_open(file, part, &p) != ZN_OK)
        return false;
    const bool yes = is[part](&p, w);
    zn_part_close(&p);
    return yes;
}

/* A network that some file or index holds. */
typedef struct found {
    path file;
    zn_generator_part part;
    int place; /* counts the folders: the first ones are preferred */
    int base;  /* index of the folder of the user that it was found through */
    zn_part_widths width;
} found;

typedef struct search {
    zn_generator_paths *out;
    path bases[MAX_BASES]; /* folders to look in, with the folders inside them */
    int base_count, place, base;
    int model_bases;                            /* how many of them belong to the model; the others, to named parts */
    zn_part_widths width[ZN_GENERATOR_VAE + 1]; /* of the networks that are chosen */
    found *list;
    size_t count, capacity;
    zn_status status;
    char unreadable[1024]; /* what is wrong with the first file that cannot be read; may be what is missing */
} search;

static bool can_be_read(search *s, const char *file)
{
    zn_part_files p;
    if (zn_part_open(file, ZN_GENERATOR_TRANSFORMER, &p) == ZN_OK) {
        zn_part_close(&p);
        return true;
    }
    if (!s->unreadable[0])
        snprintf(s->unreadable, sizeof s->unreadable, "%s", zn_error_text());
    return false;
}

/* Notes every network that a file holds; a checkpoint may hold all of them. */
static void look_into(search *s, const char *file)
{
    if (!can_be_read(s, file))
        return;
    for (int part = ZN_GENERATOR_TRANSFORMER; part <= ZN_GENERATOR_VAE; part++) {
        zn_part_widths w;
        if (!holds(file, part, &w))
            continue;
        if (!ZN_GROW(s->list, s->capacity, s->count + 1)) {
            s->status = ZN_FAIL(ZN_ENOMEM, "out of memory while looking for files");
            return;
        }
        found *f = &s->list[s->count++];
        *f = (found){ .part = part, .place = s->place, .base = s->base, .width = w };
        snprintf(f->file, sizeof f->file, "%s", file);
    }
}

/* ---- folders ---- */

/* "model-00001-of-00003.safetensors": its index speaks for it. */
static bool is_shard(const char *name)
{
    int number, of;
    for (const char *dash = name; (dash = strchr(dash, '-')); dash++)
        if (sscanf(dash, "-%5d-of-%5d.", &number, &of) == 2)
            return true;
    return false;
}

static void look_in_folder(search *s, const char *folder)
{
    struct dirent **entries;
    const int count = scandir(folder, &entries, NULL, alphasort);
    s->place++;
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        path file;
        if ((zn_ending(name, ".index.json") || (zn_part_is_weights(name) && !is_shard(name))) &&
            join(file, folder, name) && !zn_is_folder(file))
            look_into(s, file);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

static const char *const folders[] = { "transformer",      "text_encoder", "vae",  "tokenizer",
                                       "diffusion_models", "unet",         "clip", "text_encoders",
                                       "checkpoints",      "vae_approx" };
enum { FOLDERS = sizeof folders / sizeof *folders };

static void add_base(search *s, const char *folder)
{
    for (int i = 0; i < s->base_count; i++)
        if (strcmp(s->bases[i], folder) == 0)
            return;
    if (s->base_count < MAX_BASES && zn_is_folder(folder))
        snprintf(s->bases[s->base_count++], MAX_PATH, "%s", folder);
}

/* A folder of the user, and where the parts of ComfyUI's folders and downloads are: above it or in one of these. */
static void add_bases(search *s, const char *folder)
{
    static const char *const inside[] = { "models", "split_files" };
    path other;
    const char *name = strrchr(folder, '/');
    name = name ? name + 1 : folder;
    add_base(s, folder);
    folder_of(folder, other);
    for (int i = 0; i < FOLDERS; i++)
        if (strcmp(name, folders[i]) == 0)
            add_base(s, other);
    for (int i = 0; i < 2; i++)
        if (join(other, folder, inside[i]))
            add_base(s, other);
}

static void look_everywhere(search *s)
{
    path folder;
    for (int b = 0; b < s->base_count; b++) {
        s->base = b;
        look_in_folder(s, s->bases[b]);
        for (int i = 0; i < FOLDERS; i++)
            if (join(folder, s->bases[b], folders[i]))
                look_in_folder(s, folder);
    }
}

/* ---- choosing ---- */

/* The file of the first folder that has one that fits; two in one folder are the user's choice. What the model's own
 * folders have is not replaced by files that happen to be beside a part that is named apart. */
static zn_status choose(search *s, zn_generator_part part)
{
    const zn_part_widths *transformer = &s->width[ZN_GENERATOR_TRANSFORMER];
    const found *best = NULL, *second = NULL, *misfit = NULL;
    for (size_t i = 0; i < s->count; i++) {
        const found *f = &s->list[i];
        if (f->part != part)
            continue;
        if (misfit && !best && misfit->base < s->model_bases && f->base >= s->model_bases)
            break;
        if (!zn_widths_fit(&f->width, transformer)) {
            misfit = misfit ? misfit : f;
            continue;
        }
        second = best && !second && f->place == best->place ? f : second;
        best = best ? best : f;
    }
    best = best ? best : misfit; /* check_widths reports it */
    if (best) {
        snprintf(s->out->part[part], MAX_PATH, "%s", best->file);
        s->width[part] = best->width;
    }
    return !second ? ZN_OK
                   : ZN_FAIL(ZN_EINVALID, "%s and %s both hold a %s: name one with %s", best->file, second->file,
                             zn_part_label(part), zn_part_option(part));
}

static bool has_vocabulary(const char *file)
{
    zn_weights *w;
    if (!zn_ending(file, ".gguf") || zn_weights_open(file, &w) != ZN_OK)
        return false;
    const bool yes = zn_gguf_find(w, "tokenizer.ggml.tokens") != NULL;
    zn_weights_close(w);
    return yes;
}

/* tokenizer.json, or vocab.json with merges.txt, in a folder or in its folder "tokenizer". */
static bool tokenizer_in(const char *folder, char *out)
{
    static const char *const inside[] = { "tokenizer", "" };
    static const char *const names[] = { "tokenizer.json", "vocab.json" };
    path file;
    for (int i = 0; i < 4; i++)
        if (join(out, folder, inside[i / 2]) && join(file, out, names[i % 2]) && zn_exists(file)) {
            if (i % 2 == 0)
                snprintf(out, MAX_PATH, "%s", file);
            return true;
        }
    return false;
}

/* TAEF1 is known by its name: the networks for other latents look the same. */
static bool preview_in(const char *folder, char *out)
{
    static const char *const names[] = { "taef1_decoder.safetensors",
                                         "taef1.safetensors",
                                         "taef1_decoder.pth",
                                         "taef1.pth",
                                         "taef1/diffusion_pytorch_model.safetensors",
                                         "vae_approx/taef1_decoder.safetensors",
                                         "vae_approx/taef1_decoder.pth" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (join(out, folder, names[i]) && zn_exists(out))
            return true;
    return false;
}

/* Latents with statistics of their own are not those that TAEF1 decodes. */
static bool has_other_latents(const char *vae)
{
    zn_part_files p;
    if (!vae[0] || zn_part_open(vae, ZN_GENERATOR_VAE, &p) != ZN_OK)
        return false;
    const bool yes = zn_json_get(p.config.root, "latents_mean") != NULL;
    zn_part_close(&p);
    return yes;
}

typedef struct place_search {
    bool (*in)(const char *folder, char *out);
    char *out;
    bool found;
} place_search;

static bool look_in_place(void *user, const char *folder)
{
    place_search *p = user;
    p->found = p->in(folder, p->out);
    return !p->found;
}

/* Looks in the folders of the user, then where models are searched. out is "" if it is nowhere. */
static zn_status find_beside(const search *s, bool (*in)(const char *folder, char *out), char *out)
{
    place_search p = { .in = in, .out = out };
    for (int i = 0; i < s->base_count && !p.found; i++)
        p.found = in(s->bases[i], out);
    if (!p.found)
        ZN_TRY(zn_each_place(look_in_place, &p));
    if (!p.found)
        out[0] = 0;
    return ZN_OK;
}

static zn_status find_tokenizer(search *s)
{
    char *out = s->out->part[ZN_GENERATOR_TOKENIZER];
    const char *text = s->out->part[ZN_GENERATOR_TEXT];
    path folder;
    folder_of(text, folder);
    if (text[0] && tokenizer_in(folder, out))
        return ZN_OK;
    if (!has_vocabulary(text))
        return find_beside(s, tokenizer_in, out);
    snprintf(out, MAX_PATH, "%s", text);
    return ZN_OK;
}

/* ---- names ---- */

typedef struct name_search {
    const char *name;
    char *out, places[1024];
    bool found;
} name_search;

static bool look_for_name(void *user, const char *folder)
{
    static const char *const endings[] = { "", ".gguf", ".safetensors" };
    name_search *n = user;
    const size_t used = strlen(n->places);
    for (size_t i = 0; i < sizeof endings / sizeof *endings && !n->found; i++) {
        const int length = snprintf(n->out, MAX_PATH, "%s/%s%s", folder, n->name, endings[i]);
        n->found = length > 0 && length < MAX_PATH && zn_exists(n->out);
    }
    snprintf(n->places + used, sizeof n->places - used, "%s%.200s", used ? ", " : "", folder);
    return !n->found;
}

/* A path as it is; a name, from the folders where models are searched. */
static zn_status resolve(const char *name, const char *what, char *out)
{
    name_search n = { .name = name, .out = out };
    if (zn_exists(name)) {
        size_t length = strlen(name);
        while (length > 1 && name[length - 1] == '/')
            length--;
        return snprintf(out, MAX_PATH, "%.*s", (int)length, name) < MAX_PATH
                   ? ZN_OK
                   : ZN_FAIL(ZN_ELIMIT, "the path of the %s is too long", what);
    }
    if (strchr(name, '/'))
        return ZN_FAIL(ZN_ENOTFOUND, "%s: there is no such file or folder", name);
    ZN_TRY(zn_each_place(look_for_name, &n));
    return n.found ? ZN_OK : ZN_FAIL(ZN_ENOTFOUND, "no %s '%s' found here or in %s", what, name, n.places);
}

/* The network of a folder that the user named for a part. */
static zn_status take_folder(search *s, const char *folder, zn_generator_part part)
{
    char *out = s->out->part[part];
    s->count = 0;
    s->base = 0;
    out[0] = 0;
    look_in_folder(s, folder);
    ZN_TRY(choose(s, part));
    s->count = 0;
    if (!out[0] && s->unreadable[0])
        return ZN_FAIL(ZN_EFORMAT, "%s has no %s that can be used: %s", folder, zn_part_label(part), s->unreadable);
    if (!out[0])
        return ZN_FAIL(ZN_ENOTFOUND, "%s has no %s: it should have %s", folder, zn_part_label(part),
                       zn_part_advice(part));
    return ZN_OK;
}

/* A part that the user named. A file that does not hold it is reported when it is opened. */
static zn_status take_named(search *s, const char *name, zn_generator_part part)
{
    char *out = s->out->part[part];
    path given;
    ZN_TRY(resolve(name, zn_part_label(part), given));
    snprintf(out, MAX_PATH, "%s", given);
    if (part == ZN_GENERATOR_TOKENIZER && zn_is_folder(given) && !tokenizer_in(given, out))
        return ZN_FAIL(ZN_ENOTFOUND, "%s has no tokenizer: it should have tokenizer.json, or vocab.json and merges.txt",
                       given);
    if (part > ZN_GENERATOR_VAE)
        return ZN_OK;
    if (zn_is_folder(given))
        ZN_TRY(take_folder(s, given, part));
    else
        (void)!holds(given, part, &s->width[part]);
    folder_of(out, given);
    add_bases(s, given);
    return s->status;
}

/* ---- all of them ---- */

/* A model that is a file: the transformer, or a checkpoint that holds more. */
static zn_status take_model_file(search *s, const char *model)
{
    char *out = s->out->part[ZN_GENERATOR_TRANSFORMER];
    if (!out[0] && !holds(model, ZN_GENERATOR_TRANSFORMER, &s->width[ZN_GENERATOR_TRANSFORMER])) {
        zn_part_files p; /* says why, if it cannot be read */
        ZN_TRY(zn_part_open(model, ZN_GENERATOR_TRANSFORMER, &p));
        zn_part_close(&p);
        return ZN_FAIL(ZN_EFORMAT, "%s does not hold the transformer of Z-Image", model);
    }
    if (!out[0])
        snprintf(out, MAX_PATH, "%s", model);
    s->place++;
    s->base = 0;
    look_into(s, model);
    return s->status;
}

/* where: the model's path, and the folder of an index. Its folders come before those of parts that are named apart. */
static zn_status find_model(search *s, const char *model, char *where)
{
    path folder;
    ZN_TRY(resolve(model, "model", where));
    folder_of(where, folder);
    if (zn_ending(where, ".json"))
        snprintf(where, MAX_PATH, "%s", folder);
    add_bases(s, zn_is_folder(where) ? where : folder);
    s->model_bases = s->base_count;
    return ZN_OK;
}

static zn_status check_widths(const search *s)
{
    const zn_part_widths *transformer = &s->width[ZN_GENERATOR_TRANSFORMER];
    for (int part = ZN_GENERATOR_TEXT; part <= ZN_GENERATOR_VAE; part++)
        if (!zn_widths_fit(&s->width[part], transformer))
            return zn_part_misfit(part, s->out->part[part], &s->width[part], s->out->part[ZN_GENERATOR_TRANSFORMER],
                                  transformer);
    return ZN_OK;
}

/* Chooses what is not named. A part in doubt does not stop the others from being found; why: the first doubt. */
static zn_status choose_all(search *s, char *why, size_t size)
{
    zn_status first = ZN_OK;
    for (int part = 0; part <= ZN_GENERATOR_VAE; part++) {
        const zn_status status = s->out->part[part][0] ? ZN_OK : choose(s, part);
        if (status != ZN_OK && first == ZN_OK) {
            first = status;
            snprintf(why, size, "%s", zn_error_text());
        }
    }
    return first;
}

static zn_status find_all(search *s, const zn_generator_files *asked)
{
    const char *const named[] = { asked->transformer, asked->text_encoder, asked->vae, asked->tokenizer,
                                  asked->preview };
    path where = "", usual;
    const char *model = asked->model;
    if (!model && !asked->transformer) {
        ZN_TRY(zn_generator_default(usual, sizeof usual));
        model = usual;
    }
    if (model)
        ZN_TRY(find_model(s, model, where));
    for (int part = 0; part < ZN_GENERATOR_PARTS; part++)
        if (named[part])
            ZN_TRY(take_named(s, named[part], part));
    if (model && !zn_is_folder(where))
        ZN_TRY(take_model_file(s, where));
    if (!s->base_count)
        return ZN_FAIL(ZN_EINVALID, "name a model: the folder of Z-Image-Turbo, or the file of its transformer");
    look_everywhere(s);
    ZN_TRY(s->status);
    char why[1024];
    const zn_status chosen = choose_all(s, why, sizeof why);
    if (!named[ZN_GENERATOR_TOKENIZER])
        ZN_TRY(find_tokenizer(s));
    if (!named[ZN_GENERATOR_PREVIEW] && !has_other_latents(s->out->part[ZN_GENERATOR_VAE]))
        ZN_TRY(find_beside(s, preview_in, s->out->part[ZN_GENERATOR_PREVIEW]));
    if (chosen != ZN_OK)
        return ZN_FAIL(chosen, "%s", why);
    ZN_TRY(check_widths(s));
    return zn_parts_missing(s->out, where[0] ? where : s->bases[0], s->unreadable);
}

zn_status zn_generator_paths_find(const zn_generator_files *asked, zn_generator_paths *out)
{
    search *s;
    memset(out, 0, sizeof *out);
    ZN_TRY(zn_alloc_for("the search for files", sizeof *s, (void **)&s));
    memset(s, 0, sizeof *s);
    s->out = out;
    const zn_status status = find_all(s, asked);
    zn_free(s->list);
    zn_free(s);
    return status;
}
