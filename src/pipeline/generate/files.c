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
#include "models/flux/flux_vae.h"
#include "models/qwen3/qwen3.h"
#include "models/zimage/zimage.h"
#include "pipeline/generate/part_index.h"
#include "pipeline/model/open.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_PATH = sizeof((zn_generator_paths *)0)->part[0], MAX_BASES = 12 };
typedef char path[MAX_PATH];

static const struct {
    const char *name, *option, *file;
} parts[ZN_GENERATOR_PARTS] = {
    { "transformer", "--transformer", "z_image_turbo_bf16.safetensors (12.3 GB)" },
    { "text encoder", "--text-encoder", "qwen_3_4b.safetensors (8.0 GB)" },
    { "autoencoder", "--vae", "ae.safetensors (0.3 GB)" },
    { "tokenizer", "--tokenizer", "tokenizer.json (11 MB, of Qwen3-4B)" },
    { "preview network", "", "" }, /* is never missed */
};

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

typedef struct widths {
    int captions, latents; /* 0: none */
} widths;

static bool is_transformer(const zn_part_files *p, widths *w)
{
    zn_zimage_form k;
    zn_zimage_naming naming;
    char prefix[128]; /* Lumina 2 has the same names, except for this one */
    if (!zn_find_prefix(p->files, p->count, "x_pad_token", prefix, sizeof prefix) ||
        zn_zimage_recognise(p->files, p->count, p->config.root, &k, &naming) != ZN_OK)
        return false;
    *w = (widths){ k.caption, k.channels };
    return true;
}

static bool is_text(const zn_part_files *p, widths *w)
{
    zn_qwen3_form k;
    zn_qwen3_naming naming;
    if (zn_qwen3_recognise(p->files, p->count, p->config.root, &k, &naming) != ZN_OK)
        return false;
    *w = (widths){ .captions = k.hidden };
    return true;
}

static bool is_vae(const zn_part_files *p, widths *w)
{
    zn_flux_form k;
    zn_flux_naming naming;
    if (zn_flux_recognise(p->files, p->count, p->config.root, &k, &naming) != ZN_OK)
        return false;
    *w = (widths){ .latents = k.latent };
    return true;
}

/* Does a file, or the shards of an index, hold this network? What cannot be read may be anything: it does not. */
static bool holds(const char *file, zn_generator_part part, widths *w)
{
    static bool (*const is[])(const zn_part_files *, widths *) = { is_transformer, is_text, is_vae };
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
    widths width;
} found;

typedef struct search {
    zn_generator_paths *out;
    path bases[MAX_BASES]; /* folders to look in, with the folders inside them */
    int base_count, place;
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
        widths w;
        if (!holds(file, part, &w))
            continue;
        if (!ZN_GROW(s->list, s->capacity, s->count + 1)) {
            s->status = ZN_FAIL(ZN_ENOMEM, "out of memory while looking for files");
            return;
        }
        found *f = &s->list[s->count++];
        *f = (found){ .part = part, .place = s->place, .width = w };
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
    for (int i = 0; i < FOLDERS; i++)
        if (strcmp(name, folders[i]) == 0 && join(other, folder, ".."))
            add_base(s, other);
    for (int i = 0; i < 2; i++)
        if (join(other, folder, inside[i]))
            add_base(s, other);
}

static void look_everywhere(search *s)
{
    path folder;
    for (int b = 0; b < s->base_count; b++) {
        look_in_folder(s, s->bases[b]);
        for (int i = 0; i < FOLDERS; i++)
            if (join(folder, s->bases[b], folders[i]))
                look_in_folder(s, folder);
    }
}

/* ---- choosing ---- */

static bool fits(const found *f, const widths *transformer)
{
    const bool captions = !transformer->captions || !f->width.captions || f->width.captions == transformer->captions;
    return captions && (!transformer->latents || !f->width.latents || f->width.latents == transformer->latents);
}

/* The file of the first folder that has one; two in one folder are the user's choice. */
static zn_status choose(search *s, zn_generator_part part, widths *transformer)
{
    const found *best = NULL;
    for (size_t i = 0; i < s->count; i++) {
        const found *f = &s->list[i];
        if (f->part != part || !fits(f, transformer))
            continue;
        if (best && f->place == best->place)
            return ZN_FAIL(ZN_EINVALID, "%s and %s both hold a %s: name one with %s", best->file, f->file,
                           parts[part].name, parts[part].option);
        best = best ? best : f;
    }
    if (best)
        snprintf(s->out->part[part], MAX_PATH, "%s", best->file);
    if (best && part == ZN_GENERATOR_TRANSFORMER)
        *transformer = best->width;
    return ZN_OK;
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

/* A part that the user named. A folder of several networks is searched for the right one. */
static zn_status take_named(search *s, const char *name, zn_generator_part part, widths *transformer)
{
    char *out = s->out->part[part];
    path given;
    ZN_TRY(resolve(name, parts[part].name, given));
    snprintf(out, MAX_PATH, "%s", given);
    if (part > ZN_GENERATOR_VAE)
        return ZN_OK;
    if (zn_is_folder(given)) {
        s->count = 0;
        out[0] = 0;
        look_in_folder(s, given);
        ZN_TRY(choose(s, part, transformer));
        s->count = 0;
        if (!out[0] && s->unreadable[0])
            return ZN_FAIL(ZN_EFORMAT, "%s has no %s that can be used: %s", given, parts[part].name, s->unreadable);
        if (!out[0])
            return ZN_FAIL(ZN_ENOTFOUND, "%s has no %s: it should have %s", given, parts[part].name, parts[part].file);
    } else if (part == ZN_GENERATOR_TRANSFORMER) {
        (void)!holds(given, part, transformer);
    }
    folder_of(out, given);
    add_bases(s, given);
    return s->status;
}

/* ---- all of them ---- */

/* Appends to a list: "a", "a and b", "a, b and c". */
static void append(char *list, size_t size, const char *item, bool last)
{
    const size_t used = strlen(list);
    snprintf(list + used, size - used, "%s%s", !used ? "" : last ? " and " : ", ", item);
}

static zn_status check_missing(const search *s, const char *where)
{
    char names[160] = "", files[256] = "", options[160] = "";
    int count = 0, last = -1;
    for (int part = 0; part <= ZN_GENERATOR_TOKENIZER; part++) {
        count += !s->out->part[part][0];
        last = s->out->part[part][0] ? last : part;
    }
    for (int part = 0; part <= last; part++) {
        if (s->out->part[part][0])
            continue;
        char none[32];
        snprintf(none, sizeof none, "no %s", parts[part].name);
        append(names, sizeof names, none, part == last);
        append(files, sizeof files, parts[part].file, part == last);
        append(options, sizeof options, parts[part].option, part == last);
    }
    if (!count)
        return ZN_OK;
    if (s->unreadable[0])
        return ZN_FAIL(ZN_EFORMAT, "%s has %s that can be used: %s", where, names, s->unreadable);
    return ZN_FAIL(ZN_ENOTFOUND, "%s has %s%s: put %s %s, or name %s with %s", where, names,
                   zn_is_folder(where) ? "" : " beside it", files, zn_is_folder(where) ? "into it" : "there",
                   count > 1 ? "them" : "it", options);
}

/* A model that is a file: the transformer, or a checkpoint that holds more. */
static zn_status take_model_file(search *s, const char *model, widths *transformer)
{
    char *out = s->out->part[ZN_GENERATOR_TRANSFORMER];
    if (!out[0] && !holds(model, ZN_GENERATOR_TRANSFORMER, transformer)) {
        zn_part_files p; /* says why, if it cannot be read */
        ZN_TRY(zn_part_open(model, ZN_GENERATOR_TRANSFORMER, &p));
        zn_part_close(&p);
        return ZN_FAIL(ZN_EFORMAT, "%s does not hold the transformer of Z-Image", model);
    }
    if (!out[0])
        snprintf(out, MAX_PATH, "%s", model);
    s->place++;
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
    return ZN_OK;
}

static zn_status find_all(search *s, const zn_generator_files *asked)
{
    const char *const named[] = { asked->transformer, asked->text_encoder, asked->vae, asked->tokenizer,
                                  asked->preview };
    widths transformer = { 0 };
    path where = "";
    if (asked->model)
        ZN_TRY(find_model(s, asked->model, where));
    for (int part = 0; part < ZN_GENERATOR_PARTS; part++)
        if (named[part])
            ZN_TRY(take_named(s, named[part], part, &transformer));
    if (asked->model && !zn_is_folder(where))
        ZN_TRY(take_model_file(s, where, &transformer));
    if (!s->base_count)
        return ZN_FAIL(ZN_EINVALID, "name a model: the folder of Z-Image-Turbo, or the file of its transformer");
    look_everywhere(s);
    ZN_TRY(s->status);
    for (int part = 0; part <= ZN_GENERATOR_VAE; part++)
        if (!s->out->part[part][0])
            ZN_TRY(choose(s, part, &transformer));
    if (!named[ZN_GENERATOR_TOKENIZER])
        ZN_TRY(find_tokenizer(s));
    if (!named[ZN_GENERATOR_PREVIEW])
        ZN_TRY(find_beside(s, preview_in, s->out->part[ZN_GENERATOR_PREVIEW]));
    return check_missing(s, where[0] ? where : s->bases[0]);
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

/* ---- the tokenizer ---- */

/* The rules of Qwen's tokenizers are compiled in; a file with other rules would give wrong tokens. */
static zn_status check_rules(const zn_weights *w, const char *file)
{
    const char *model = zn_weights_metadata(w, "tokenizer.ggml.model"),
               *pre = zn_weights_metadata(w, "tokenizer.ggml.pre");
    if (!model)
        return ZN_FAIL(ZN_ENOTFOUND, "%s has no tokenizer in its metadata: name tokenizer.json of Qwen3-4B", file);
    if (strcmp(model, "gpt2") != 0 || (pre && strcmp(pre, "qwen2") != 0))
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: its tokenizer (%s, %s) is not that of Qwen", file, model, pre ? pre : "?");
    return ZN_OK;
}

zn_status zn_generator_vocabulary(const zn_weights *w, const char *file, zn_tokenizer **out)
{
    *out = NULL;
    zn_token_lists l = { 0 };
    ZN_TRY(check_rules(w, file));
    l.token_count = zn_gguf_array(w, "tokenizer.ggml.tokens", ZN_GGUF_STRING, &l.tokens);
    l.merge_count = zn_gguf_array(w, "tokenizer.ggml.merges", ZN_GGUF_STRING, &l.merges);
    if (zn_gguf_array(w, "tokenizer.ggml.token_type", ZN_GGUF_I32, &l.types) != l.token_count)
        return ZN_FAIL(ZN_EFORMAT, "%s: tokens and their types differ in number", file);
    return zn_tokenizer_read_lists(&l, file, out);
}

zn_status zn_generator_tokenizer(const char *file, zn_tokenizer **out)
{
    zn_weights *w;
    *out = NULL;
    if (!zn_ending(file, ".gguf"))
        return zn_tokenizer_open(file, out);
    ZN_TRY(zn_weights_open(file, &w));
    const zn_status status = zn_generator_vocabulary(w, file, out);
    zn_weights_close(w);
    return status;
}
