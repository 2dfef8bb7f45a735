/* Prints facts for people and for scripts from the same calls. */
#include "ui/facts.h"

#include "options/model_names.h"
#include "ui/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The JSON object of this process. It stays open until facts_print adds the error. */
static json object;
static int in_list; /* the current facts are an element of a list in it */

void facts_begin(facts *f, int as_json)
{
    *f = (facts){ .json = as_json };
    if (!as_json)
        return;
    if (in_list)
        f->out = object;
    json_open(&f->out, NULL, '{');
}

void facts_end(facts *f)
{
    if (!f->json)
        return;
    if (in_list)
        json_close(&f->out, '}');
    object = f->out;
}

void facts_list_begin(const char *key)
{
    json_open(&object, NULL, '{');
    json_open(&object, key, '[');
    in_list = 1;
}

void facts_list_end(void)
{
    json_close(&object, ']');
    in_list = 0;
}

void facts_print(int status)
{
    if (!object.text && !status)
        return;
    if (!object.text)
        json_open(&object, NULL, '{');
    if (status)
        json_text(&object, "error", report_error());
    json_close(&object, '}');
    json_print(&object);
}

void fact_model_name(facts *f, const zn_model_info *info)
{
    char *name = reported_model(info);
    fact_text(f, "model", name);
    free(name);
}

void fact_precision(facts *f, const char *asked, double share)
{
    const int plain = strcmp(asked, "f32") == 0, none = !plain && share <= 0;
    char text[96];
    if (f->json) {
        fact_text(f, "precision", none ? "f32" : asked);
        fact_text(f, "precision_asked", asked);
        fact_real(f, "precision_share", plain || none ? 1 : share, 3, "");
        return;
    }
    if (none)
        snprintf(text, sizeof text, "f32: %s is not faster here", asked);
    else if (plain)
        snprintf(text, sizeof text, "%s", asked);
    else
        snprintf(text, sizeof text, "%s in %.1f %% of the operations", asked, 100 * share);
    fact_text(f, "precision", text);
}

static void line(const char *key, const char *value)
{
    char label[32];
    snprintf(label, sizeof label, "%s", key);
    for (char *c = label; *c; c++)
        if (*c == '_')
            *c = ' ';
    for (const char *left = label;; left = "") { /* further lines go under the first */
        const int length = (int)strcspn(value, "\n");
        say("%-15s %.*s\n", left, length, value);
        if (!value[length])
            return;
        value += length + 1;
    }
}

void fact_text(facts *f, const char *key, const char *value)
{
    if (f->json)
        json_text(&f->out, key, value);
    else
        line(key, value);
}

void fact_integer(facts *f, const char *key, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    if (f->json)
        json_integer(&f->out, key, value);
    else
        line(key, text);
}

void fact_unsigned(facts *f, const char *key, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    if (f->json)
        json_unsigned(&f->out, key, value);
    else
        line(key, text);
}

void fact_bool(facts *f, const char *key, int value)
{
    if (f->json)
        json_bool(&f->out, key, value);
    else
        line(key, value ? "yes" : "no");
}

void fact_real(facts *f, const char *key, double value, int decimals, const char *unit)
{
    char text[64];
    snprintf(text, sizeof text, "%.*f%s", decimals, value, unit);
    if (f->json)
        json_real(&f->out, key, value);
    else
        line(key, text);
}

const char *bytes_text(double bytes, char text[32])
{
    static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
    int u = 0;
    while (u < 4 && bytes >= 1024) {
        bytes /= 1024;
        u++;
    }
    snprintf(text, 32, u ? "%.1f %s" : "%.0f %s", bytes, units[u]);
    return text;
}

void fact_bytes(facts *f, const char *key, int64_t value)
{
    char text[32];
    if (f->json)
        json_integer(&f->out, key, value);
    else
        line(key, bytes_text((double)value, text));
}

void fact_difference(facts *f, const zn_image_difference *d)
{
    const int identical = isinf(d->psnr) && d->psnr > 0;
    if (!f->json && identical)
        line("psnr", "infinite, the images are identical");
    else
        fact_real(f, "psnr", d->psnr, 2, " dB");
    fact_real(f, "ssim", d->ssim, 5, "");
    fact_integer(f, "max_difference", d->max_difference);
    if (f->json)
        json_bool(&f->out, "identical", identical);
}
