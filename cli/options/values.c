/* Parses option values. The whole text must be valid, so "--threads 4x" is an error and not 4. */
#include "options/values.h"

#include "options/options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zenith/zenith.h>

/* Parses the whole text as a decimal number in [low,high]. */
static int whole(const char *text, uint64_t low, uint64_t high, uint64_t *out)
{
    if (!isdigit((unsigned char)text[0]))
        return 0;
    char *end;
    errno = 0;
    const unsigned long long v = strtoull(text, &end, 10);
    if (errno || *end || v < low || v > high)
        return 0;
    *out = v;
    return 1;
}

static int whole_int(const char *text, uint64_t low, uint64_t high, void *field)
{
    uint64_t v;
    if (!whole(text, low, high, &v))
        return 0;
    *(int *)field = (int)v;
    return 1;
}

int value_once(const char *text, void *field) { return value_text(text, field); }

int value_text(const char *text, void *field)
{
    *(const char **)field = text;
    return text[0] != 0;
}

int value_any_text(const char *text, void *field)
{
    *(const char **)field = text;
    return 1;
}

/* Appends to a list that ends with NULL and holds at most `most`. */
static int append(const char *text, const char **list, int most)
{
    int count = 0;
    while (list[count])
        count++;
    if (count == most)
        return 0;
    list[count] = text;
    return 1;
}

int value_lora(const char *text, void *field) { return text[0] && text[0] != ':' && append(text, field, MOST_LORAS); }

int value_name(const char *text, void *field) { return text[0] && append(text, field, MOST_LISTED); }

int value_minutes(const char *text, void *field) { return whole_int(text, 0, 1000000, field); }

int value_setting(const char *text, void *field)
{
    const char *equals = strchr(text, '=');
    return equals && equals != text && append(text, field, MOST_SETTINGS);
}

static int real_text(const char *text, double low, double high, void *field)
{
    char *end;
    const double v = strtod(text, &end);
    *(const char **)field = text;
    return (isdigit((unsigned char)text[0]) || text[0] == '.') && end != text && !*end && v >= low && v <= high;
}

int value_guidance(const char *text, void *field) { return real_text(text, 0, 100, field); }
int value_eta(const char *text, void *field) { return real_text(text, 0, 1, field); }
int value_shift(const char *text, void *field) { return real_text(text, 0.01, 1000, field); }
int value_strength(const char *text, void *field) { return real_text(text, 1e-6, 1, field); }

int value_share(const char *text, void *field)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || !(isdigit((unsigned char)text[0]) || text[0] == '.'))
        return 0;
    if (*end == '%') {
        v /= 100;
        end++;
    }
    *(double *)field = v;
    return !*end && v > 0 && v <= 1;
}

int value_factor(const char *text, void *field) { return whole_int(text, 1, 16, field); }
int value_points(const char *text, void *field) { return whole_int(text, 1, 1000000, field); }

int value_seed_text(const char *text, void *field)
{
    uint64_t seed;
    *(const char **)field = text;
    return whole(text, 0, UINT64_MAX, &seed);
}

int value_threads(const char *text, void *field)
{
    if (!strcmp(text, "auto"))
        return *(int *)field = 0, 1;
    return whole_int(text, 0, 1024, field);
}

int value_steps(const char *text, void *field)
{
    int steps;
    return whole_int(text, 1, 1000000000, &steps) && (*(int64_t *)field = steps, 1);
}

int value_sampling_steps(const char *text, void *field)
{
    int steps;
    return whole_int(text, 1, 1000, &steps) && (*(int64_t *)field = steps, 1);
}

int value_runs(const char *text, void *field) { return whole_int(text, 1, 100000, field); }
int value_side(const char *text, void *field) { return whole_int(text, 8, 4096, field); }
int value_clips(const char *text, void *field) { return whole_int(text, 2, 1024, field); }

/* Frames per second: 24, 29.97 or, as NTSC's rates are defined, 30000/1001. */
int value_rate(const char *text, void *field)
{
    char *end;
    double rate = strtod(text, &end);
    if (*text == '+' || *text == '-' || isspace((unsigned char)*text) || end == text)
        return 0;
    if (*end == '/') {
        int parts;
        if (!whole_int(end + 1, 1, 1000000, &parts))
            return 0;
        rate /= parts;
        end += strlen(end);
    }
    *(double *)field = rate;
    return !*end && rate >= 1 && rate <= 1000;
}

int value_count(const char *text, void *field) { return whole_int(text, 1, 10000, field); }
int value_batch(const char *text, void *field) { return whole_int(text, 1, ZN_BATCH_MOST, field); }
int value_frames(const char *text, void *field) { return whole_int(text, 2, 10000, field); }
int value_percent(const char *text, void *field) { return whole_int(text, 1, 99, field); }
int value_quality(const char *text, void *field) { return whole_int(text, 1, 100, field); }

int value_bits(const char *text, void *field)
{
    return (!strcmp(text, "8") || !strcmp(text, "16")) && whole_int(text, 8, 16, field);
}

int value_scale(const char *text, void *field)
{
    return (!strcmp(text, "2") || !strcmp(text, "4")) && whole_int(text, 2, 4, field);
}

int value_tile(const char *text, void *field)
{
    if (!strcmp(text, "auto"))
        return *(int *)field = ZN_TILE_AUTO, 1;
    if (!strcmp(text, "off"))
        return *(int *)field = ZN_TILE_OFF, 1;
    return whole_int(text, 64, 1 << 20, field); /* as zn_options takes it */
}

int value_size(const char *text, void *field)
{
    int *size = field;
    const char *x = strpbrk(text, "xX");
    if (!x)
        return whole_int(text, 1, 1 << 20, &size[0]) && (size[1] = size[0], 1);
    char width[16];
    const size_t length = (size_t)(x - text);
    if (length >= sizeof width)
        return 0;
    memcpy(width, text, length);
    width[length] = 0;
    return whole_int(width, 1, 1 << 20, &size[0]) && whole_int(x + 1, 1, 1 << 20, &size[1]);
}

/* A small number without a unit is an error: it is a forgotten unit, not a budget of ten bytes. */
int value_memory(const char *text, void *field)
{
    if (!isdigit((unsigned char)text[0]))
        return 0;
    char *end;
    double v = strtod(text, &end);
    static const char units[] = "KMGT";
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    if (unit) {
        for (const char *u = units; u <= unit; u++)
            v *= 1024;
        end++;
        end += *end == 'i' && end[1] == 'B';
    }
    end += *end == 'B';
    if (*end || !(v >= (unit ? 1 : 1 << 20)) || v > 1e18)
        return 0;
    *(size_t *)field = (size_t)v;
    return 1;
}

int value_seed(const char *text, void *field) { return whole(text, 0, UINT64_MAX, field); }

int value_run_seed(const char *text, void *field)
{
    uint64_t v;
    return whole(text, 0, 9000000000000000, &v) && (*(int64_t *)field = (int64_t)v, 1);
}

/* The index of text in a list of names, or -1. */
static int place(const char *text, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(text, names[i]))
            return i;
    return -1;
}

int value_scaling(const char *text, void *field)
{
    const char *name;
    double factor, shift;
    int known = !strcmp(text, "diffusers") || !strcmp(text, "raw");
    for (int i = 0; !known && !strncmp(text, "raw:", 4) && (name = zn_latent_family_at(i, &factor, &shift)); i++)
        known = !strcmp(text + 4, name);
    *(const char **)field = text;
    return known;
}

int value_task(const char *text, void *field)
{
    for (int i = 0; zn_task_name(i); i++)
        if (!strcmp(text, zn_task_name(i)))
            return *(int *)field = i, 1;
    return 0;
}

int value_lpips(const char *text, void *field)
{
    for (int i = 0; zn_lpips_name(i); i++)
        if (!strcmp(text, zn_lpips_name(i)))
            return *(int *)field = i, 1;
    return 0;
}

static int precision_up_to(zn_precision last, const char *text, void *field)
{
    for (int i = ZN_PRECISION_F32; i <= (int)last; i++)
        if (!strcmp(text, zn_precision_name(i)))
            return *(int *)field = i, 1;
    return 0;
}

int value_precision(const char *text, void *field) { return precision_up_to(ZN_PRECISION_F16, text, field); }
int value_decoding(const char *text, void *field)
{
    if (strcmp(text, zn_precision_name(ZN_PRECISION_FP8)) != 0)
        return value_precision(text, field);
    return *(int *)field = ZN_PRECISION_FP8, 1;
}
int value_generating(const char *text, void *field) { return precision_up_to(ZN_PRECISION_FP8, text, field); }
int value_learning(const char *text, void *field) { return precision_up_to(ZN_PRECISION_F16, text, field); }

int value_device(const char *text, void *field)
{
    const char *digits = strncmp(text, "cuda:", 5) ? "" : text + 5;
    const size_t length = strspn(digits, "0123456789");
    const int numbered = length > 0 && length < 4 && !digits[length];
    return (numbered || !strcmp(text, "cpu") || !strcmp(text, "cuda")) && (*(const char **)field = text, 1);
}

int value_part(const char *text, void *field)
{
    static const char *const names[] = { "encode", "decode" };
    static const int values[] = { ZN_ENCODER, ZN_DECODER };
    const int i = place(text, names, 2);
    return i >= 0 && (*(int *)field = values[i], 1);
}

int value_dtype(const char *text, void *field)
{
    static const char *const names[] = { "f32",  "f16",  "bf16", "int8", "fp8",  "q8_0",
                                         "q4_0", "q4_k", "q5_k", "q6_k", "mlx4", "mlx8" };
    static const int values[] = { ZN_F32,  ZN_F16,  ZN_BF16, ZN_I8,   ZN_F8_E4M3, ZN_Q8_0,
                                  ZN_Q4_0, ZN_Q4_K, ZN_Q5_K, ZN_Q6_K, DTYPE_MLX4, DTYPE_MLX8 };
    const int i = place(text, names, sizeof values / sizeof *values);
    return i >= 0 && (*(int *)field = values[i], 1);
}

int value_sha256(const char *text, void *field)
{
    return strlen(text) == 64 && strspn(text, "0123456789abcdefABCDEF") == 64 && value_text(text, field);
}

int value_background(const char *text, void *field)
{
    text += *text == '#';
    if (strlen(text) != 6 || strspn(text, "0123456789abcdefABCDEF") != 6)
        return 0;
    const unsigned long rgb = strtoul(text, NULL, 16);
    uint8_t *out = field;
    out[0] = (uint8_t)(rgb >> 16);
    out[1] = (uint8_t)(rgb >> 8);
    out[2] = (uint8_t)rgb;
    return 1;
}

int parse_amounts(const char *text, double *amounts, int most)
{
    int count = 0;
    for (const char *at = text; count < most;) {
        char *end;
        const double v = strtod(at, &end);
        if (end == at || !isfinite(v) || fabs(v) > MOST_AMOUNT || (*end && *end != ','))
            return 0;
        amounts[count++] = v;
        if (!*end)
            return count;
        at = end + 1;
    }
    return 0;
}
