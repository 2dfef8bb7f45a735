/* The text form of a generation: written, and parsed again. Settings are "Key: value" separated by ", "; a value with a
 * comma, a colon, a quote or a line break is a JSON string. */
#include "files/parameters.h"

#include "ui/json.h"
#include "ui/report.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char first_key[] = "Steps: ", negative_key[] = "Negative prompt:";

void parameters_set(char **field, const char *value)
{
    char *copy = value ? must_copy(value) : NULL;
    free(*field);
    *field = copy;
}

void parameters_add_lora(parameters *p, const char *lora)
{
    int count = 0;
    while (p->loras[count])
        count++;
    if (count < MOST_LORAS)
        p->loras[count] = must_copy(lora);
}

void parameters_free(parameters *p)
{
    char *const strings[] = { p->prompt, p->negative,  p->model, p->transformer, p->text_encoder,
                              p->vae,    p->tokenizer, p->image, p->mask,        p->sampler };
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++)
        free(strings[i]);
    for (int i = 0; p->loras[i]; i++)
        free(p->loras[i]);
    *p = (parameters){ 0 };
}

static const double usual_shift = 3; /* of zn_generation: not written */

void parameters_complete(parameters *p, const zn_generator *g)
{
    zn_generation_defaults d = { .size = sizeof d };
    zn_generator_defaults(g, &d);
    p->steps = p->steps ? p->steps : d.steps;
    if (!p->has_guidance)
        p->guidance = d.guidance;
    if (p->shift == 0 && d.shift != usual_shift)
        p->shift = d.shift;
}

const char *parameters_size_remark(const zn_generator *g, int width, int height, char text[128])
{
    zn_generation_defaults d = { .size = sizeof d };
    zn_generator_defaults(g, &d);
    if (!d.own_size || !width || (width == d.width && height == d.height))
        return NULL;
    const int much_larger = 2 * width > 3 * d.width || 2 * height > 3 * d.height;
    snprintf(text, 128, "the model was trained for %dx%d pixels: images of %dx%d %s", d.width, d.height, width, height,
             much_larger ? "show hardly anything" : "look worse");
    return text;
}

/* True if `word`, of this length, is in the text as a whole, in upper or lower case. */
static int has_word(const char *text, const char *word, size_t length)
{
    for (const char *at = text; *at; at++)
        if ((at == text || !isalnum((unsigned char)at[-1])) && !strncasecmp(at, word, length) &&
            !isalnum((unsigned char)at[length]))
            return 1;
    return 0;
}

static int count_words(const char *text)
{
    int count = 0;
    for (; *(text += strspn(text, " \t\n,")); text += strcspn(text, " \t\n,"))
        count++;
    return count;
}

/* True if the text begins with the same three words as one of the examples, "a portrait of". */
static int begins_like(const char *text, const char *examples)
{
    for (size_t line; *examples; examples += line + (examples[line] == '\n')) {
        size_t length = 0;
        line = strcspn(examples, "\n");
        for (int words = 0; words < 3 && length < line; words++) {
            length += strspn(examples + length, " ");
            length += strcspn(examples + length, " \n");
        }
        if (!strncasecmp(text, examples, length) && !isalnum((unsigned char)text[length]))
            return 1;
    }
    return 0;
}

/* A small model knows the captions that it was trained on; what has another form, or far more words, confuses it. */
static const char *form_remark(const char *model, const zn_generator_about *about, const char *prompt, char text[512])
{
    const char *first = about->examples, *last = strrchr(first, '\n');
    int longest = 0;
    for (const char *line = first; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        char *one = must_print("%.*s", (int)strcspn(line, "\n"), line);
        longest = count_words(one) > longest ? count_words(one) : longest;
        free(one);
    }
    if (!longest || (begins_like(prompt + strspn(prompt, " "), first) && 2 * count_words(prompt) <= 3 * longest))
        return NULL;
    snprintf(text, 512, "%s was trained on prompts such as \"%.*s\"%s%s%s: other and longer ones give worse images",
             model, (int)strcspn(first, "\n"), first, last ? " or \"" : "", last ? last + 1 : "", last ? "\"" : "");
    return text;
}

const char *parameters_prompt_remark(const char *model, const zn_generator_about *about, const char *prompt,
                                     char text[512])
{
    size_t length;
    if (!*about->subjects || !*prompt)
        return NULL;
    for (const char *word = about->subjects; *word; word += length + (word[length] == '\n')) {
        length = strcspn(word, "\n");
        if (has_word(prompt, word, length))
            return form_remark(model, about, prompt, text);
    }
    const int example = (int)strcspn(about->examples, "\n");
    snprintf(text, 512,
             "%s does not understand this prompt: it draws what it was trained on%s%.*s%s; 'zenith pull z-image-turbo' "
             "fetches a model for any prompt",
             model, example ? ", such as \"" : "", example, about->examples, example ? "\"" : "");
    return text;
}

void parameters_fit_size(parameters *p, const zn_image *image)
{
    const zn_generation own = { .size = sizeof own, .width = image->width, .height = image->height };
    if (p->width || zn_generation_check(&own) == ZN_OK)
        return;
    p->width = image->width < IMAGE_GRAIN ? IMAGE_GRAIN : (image->width + IMAGE_GRAIN / 2) / IMAGE_GRAIN * IMAGE_GRAIN;
    p->height =
        image->height < IMAGE_GRAIN ? IMAGE_GRAIN : (image->height + IMAGE_GRAIN / 2) / IMAGE_GRAIN * IMAGE_GRAIN;
}

void parameters_set_guidance(parameters *p, double guidance)
{
    p->guidance = guidance;
    p->has_guidance = 1;
}

double parameters_guidance(const parameters *p) { return p->guidance > 0 ? p->guidance : ZN_GUIDANCE_NONE; }

/* ---- paths: the user's own folder is not for everyone to see ---- */

static char *shortened(const char *path)
{
    const char *home = getenv("HOME");
    const size_t length = home ? strlen(home) : 0;
    if (length > 1 && !strncmp(path, home, length) && path[length] == '/')
        return must_print("~%s", path + length);
    return must_copy(path);
}

static char *expanded(const char *path)
{
    const char *home = getenv("HOME");
    return home && path[0] == '~' && path[1] == '/' ? must_print("%s%s", home, path + 1) : must_copy(path);
}

/* ---- writing ---- */

/* Appends text made by must_print to another, and frees both. */
static char *joined(char *text, char *more)
{
    char *both = must_print("%s%s", text, more);
    free(text);
    free(more);
    return both;
}

/* ", Key: value", quoted where it must be. */
static char *with_text(char *text, const char *key, const char *value)
{
    if (!value[strcspn(value, ",:\"\n")] && value[0] && value[0] != ' ' && value[strlen(value) - 1] != ' ')
        return joined(text, must_print(", %s: %s", key, value));
    json quoted = { 0 };
    json_text(&quoted, NULL, value);
    char *more = must_print(", %s: %.*s", key, (int)quoted.length, quoted.text);
    free(quoted.text);
    return joined(text, more);
}

static char *with_path(char *text, const char *key, const char *path)
{
    if (!path)
        return text;
    char *shown = shortened(path);
    text = with_text(text, key, shown);
    free(shown);
    return text;
}

/* The shortest decimal that gives the number back. */
static char *with_number(char *text, const char *key, double value)
{
    char digits[40];
    for (int precision = 6; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    return joined(text, must_print(", %s: %s", key, digits));
}

static char *with_files(char *text, const parameters *p)
{
    text = with_path(text, "Model", p->model);
    text = with_path(text, "Transformer", p->transformer);
    text = with_path(text, "Text encoder", p->text_encoder);
    text = with_path(text, "VAE file", p->vae);
    text = with_path(text, "Tokenizer", p->tokenizer);
    text = with_path(text, "Image", p->image);
    text = with_path(text, "Mask", p->mask);
    for (int i = 0; p->loras[i]; i++) {
        char *key = must_print("LoRA %d", i + 1);
        text = with_path(text, key, p->loras[i]);
        free(key);
    }
    return text;
}

static char *settings(const parameters *p)
{
    char *text = must_print("%s%d, Sampler: Euler", first_key, p->steps);
    text = with_number(text, "CFG scale", 1 + p->guidance);
    text = joined(text, must_print(", Seed: %llu, Size: %dx%d", (unsigned long long)p->seed, p->width, p->height));
    if (p->guidance != 0)
        text = with_number(text, "Guidance", p->guidance); /* the usual scale minus 1, exactly */
    if (p->shift != 0)
        text = with_number(text, "Shift", p->shift);
    if (p->image)
        text = with_number(text, "Denoising strength", p->strength);
    if (p->precision)
        text = with_text(text, "Precision", zn_precision_name(p->precision));
    if (p->encoder_tile > 0)
        text = joined(text, must_print(", Encoder tile: %d", p->encoder_tile));
    if (p->decoder_tile > 0)
        text = joined(text, must_print(", Decoder tile: %d", p->decoder_tile));
    return with_files(text, p);
}

static int same(const char *a, const char *b) { return !strcmp(a ? a : "", b ? b : ""); }

/* True if the prompts are found again in the text; they are not if a line of theirs looks like something else. */
static int keeps_prompts(const char *text, const parameters *p)
{
    parameters again;
    const int kept =
        parameters_parse(text, &again) && same(again.prompt, p->prompt) && same(again.negative, p->negative);
    parameters_free(&again);
    return kept;
}

char *parameters_text(const parameters *p)
{
    const char *prompt = p->prompt ? p->prompt : "", *negative = p->negative ? p->negative : "";
    char *last = settings(p), *text = NULL;
    for (int quoted = 0; quoted < 2; quoted++) {
        if (quoted) {
            last = with_text(last, "Prompt", prompt);
            last = with_text(last, "Negative", negative);
        }
        free(text);
        text =
            must_print("%s%s%s%s%s%s%s, Version: zenith %s", prompt, *prompt ? "\n" : "", *negative ? negative_key : "",
                       *negative ? " " : "", negative, *negative ? "\n" : "", last, zn_version());
        if (keeps_prompts(text, p))
            break;
    }
    free(last);
    return text;
}

/* ---- parsing ---- */

/* The last line that begins with the first key; NULL if there is none. */
static const char *last_line(const char *text)
{
    const char *found = NULL;
    for (const char *line = text; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL)
        if (!strncmp(line, first_key, sizeof first_key - 1))
            found = line;
    return found;
}

static void take_prompts(const char *text, const char *settings_line, parameters *out)
{
    const char *negative = NULL, *end = settings_line > text ? settings_line - 1 : text;
    for (const char *line = text; line && line < end && !negative;
         line = strchr(line, '\n'), line = line ? line + 1 : NULL)
        if (!strncmp(line, negative_key, sizeof negative_key - 1))
            negative = line;
    const char *prompt_end = !negative ? end : negative > text ? negative - 1 : text;
    out->prompt = must_print("%.*s", (int)(prompt_end - text), text);
    if (!negative)
        return;
    negative += sizeof negative_key - 1;
    negative += *negative == ' ';
    out->negative = must_print("%.*s", (int)(negative < end ? end - negative : 0), negative);
}

/* Number of four hexadecimal digits; 0 if they are not. */
static unsigned code_of(const char *digits)
{
    unsigned code = 0;
    return strspn(digits, "0123456789abcdefABCDEF") >= 4 && sscanf(digits, "%4x", &code) == 1 ? code : 0;
}

/* Undoes the escapes of a JSON string, in place; characters beyond ASCII are not escaped by any writer we know. */
static void unescape(char *text)
{
    static const char codes[] = "nrtbf", values[] = "\n\r\t\b\f";
    char *to = text;
    for (const char *from = text; *from; from++) {
        const char *code = from[0] == '\\' && from[1] ? strchr(codes, from[1]) : NULL;
        if (from[0] != '\\' || !from[1])
            *to++ = *from;
        else if (from[1] == 'u' && code_of(from + 2) - 1 < 127)
            *to++ = (char)code_of(from + 2), from += 5;
        else
            *to++ = code ? values[code - codes] : from[1], from++;
    }
    *to = 0;
}

/* The value at *at, which moves to the next key. The caller frees it. */
static char *next_value(const char **at)
{
    const char *p = *at;
    size_t length = strcspn(p, ",\n");
    const int quoted = *p == '"';
    if (quoted)
        for (length = 1; p[length] && p[length] != '"'; length++)
            length += p[length] == '\\' && p[length + 1];
    char *value = must_print("%.*s", (int)(quoted ? length - 1 : length), p + quoted);
    if (quoted)
        unescape(value);
    p += length + (quoted && p[length]);
    *at = p + strspn(p, ", ");
    return value;
}

static void take_size(const char *value, parameters *out)
{
    int width, height, end = 0;
    if (sscanf(value, "%dx%d%n", &width, &height, &end) == 2 && !value[end] && width > 0 && height > 0) {
        out->width = width;
        out->height = height;
    }
}

static void take_path(const char *value, char **field)
{
    free(*field);
    *field = expanded(value);
}

static int take_file(const char *key, const char *value, parameters *out)
{
    const struct {
        const char *key;
        char **field;
    } files[] = {
        { "Model", &out->model },  { "Transformer", &out->transformer }, { "Text encoder", &out->text_encoder },
        { "VAE file", &out->vae }, { "Tokenizer", &out->tokenizer },     { "Image", &out->image },
        { "Mask", &out->mask }
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (!strcmp(key, files[i].key)) {
            take_path(value, files[i].field);
            return 1;
        }
    if (strncmp(key, "LoRA ", 5))
        return 0;
    char *path = expanded(value);
    parameters_add_lora(out, path);
    free(path);
    return 1;
}

static void take_setting(const char *key, const char *value, parameters *out)
{
    if (!strcmp(key, "Steps"))
        out->steps = atoi(value);
    else if (!strcmp(key, "Seed"))
        out->seed = strtoull(value, NULL, 10), out->has_seed = 1;
    else if (!strcmp(key, "Size"))
        take_size(value, out);
    else if (!strcmp(key, "CFG scale")) /* 1 is no guidance */
        parameters_set_guidance(out, strtod(value, NULL) > 1 ? strtod(value, NULL) - 1 : 0);
    else if (!strcmp(key, "Guidance"))
        parameters_set_guidance(out, strtod(value, NULL));
    else if (!strcmp(key, "Shift"))
        out->shift = strtod(value, NULL);
    else if (!strcmp(key, "Denoising strength"))
        out->strength = strtod(value, NULL);
    else if (!strcmp(key, "Encoder tile"))
        out->encoder_tile = atoi(value);
    else if (!strcmp(key, "Decoder tile"))
        out->decoder_tile = atoi(value);
    else if (!strcmp(key, "Sampler"))
        parameters_set(&out->sampler, value);
    else if (!strcmp(key, "Prompt"))
        parameters_set(&out->prompt, value);
    else if (!strcmp(key, "Negative"))
        parameters_set(&out->negative, value);
    else if (!strcmp(key, "Precision"))
        for (int i = ZN_PRECISION_F32; zn_precision_name(i); i++)
            out->precision = strcmp(value, zn_precision_name(i)) ? out->precision : i;
    else
        take_file(key, value, out);
}

int parameters_parse(const char *text, parameters *out)
{
    *out = (parameters){ 0 };
    const char *at = last_line(text);
    if (!at)
        return 0;
    take_prompts(text, at, out);
    while (*at && *at != '\n') {
        const size_t length = strcspn(at, ":\n");
        if (at[length] != ':')
            break;
        char *key = must_print("%.*s", (int)length, at);
        at += length + 1;
        at += *at == ' ';
        char *value = next_value(&at);
        take_setting(key, value, out);
        free(key);
        free(value);
    }
    return 1;
}

void parameters_facts(json *j, const parameters *p, const zn_generation_report *r)
{
    json_unsigned(j, "seed", p->seed);
    json_integer(j, "width", p->width);
    json_integer(j, "height", p->height);
    json_integer(j, "steps", p->steps);
    json_real(j, "guidance", p->guidance);
    json_integer(j, "tokens", r->tokens);
    json_integer(j, "tokens_cut", r->tokens_cut);
    json_bool(j, "cached", r->text_cached);
    json_integer(j, "together", r->together);
    json_real(j, "text_ms", 1000 * r->text_s);
    json_real(j, "encode_ms", 1000 * r->encode_s);
    json_real(j, "steps_ms", 1000 * r->steps_s);
    json_real(j, "decode_ms", 1000 * r->decode_s);
}
