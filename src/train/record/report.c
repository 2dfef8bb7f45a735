/* report.html: curves, samples and recipe on one page that needs nothing beside it. */
#include "base/fail.h"
#include "base/file.h"
#include "base/numbers.h"
#include "train/record/journal_data.h"

#include <math.h>
#include <string.h>

static const char *title_of(const char *name)
{
    static const char *const titles[][2] = {
        { "loss", "Loss" },
        { "lr", "Learning rate" },
        { "psnr", "PSNR of held-out images, dB" },
        { "lpips", "LPIPS of held-out images" },
        { "teacher_psnr", "PSNR of the teacher, dB" },
        { "decoder_psnr", "PSNR of the decoder to the teacher's image, dB" },
        { "latent_error", "Square error of latents, % of their variance" },
        { "pruned", "Share of the blocks that gates shut, held-out images" },
        { "held_out_loss", "Loss of held-out images" },
        { "accuracy", "Share of right answers, held-out images" },
        { "auroc", "Area under the curve of right over wrong answers" },
        { "images_per_second", "Images per second" },
        { "psnr_denoise", "PSNR of denoised images, dB" },
        { "psnr_impulse", "PSNR of images freed of impulses, dB" },
        { "psnr_deblur", "PSNR of sharpened images, dB" },
        { "psnr_jpeg", "PSNR of images from JPEG, dB" },
    };
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        if (strcmp(titles[i][0], name) == 0)
            return titles[i][1];
    return name;
}

/* Losses fall by factors, so their curves are drawn by their logarithms when all are positive. */
static bool is_logarithmic(const zn_journal *j, int column)
{
    if (strncmp(j->names[column], "loss", 4) && strcmp(j->names[column], "latent_error"))
        return false;
    for (int64_t i = 0; i < j->count; i++)
        if (j->entries[i].value[column] <= 0)
            return false;
    return true;
}

/* What a chart shows of a column: its values or their logarithms, between lo and hi. */
typedef struct chart {
    const zn_journal *journal;
    int column;
    bool logarithmic;
    double lo, hi;
} chart;

enum { W = 480, H = 200 };

static double value_at(const chart *c, int64_t i)
{
    const double v = c->journal->entries[i].value[c->column];
    return c->logarithmic ? log10(v) : v;
}

/* One line of a chart; `keep` of the mean before is kept at every point, 0 draws the values themselves. */
static void line(FILE *o, const chart *c, const char *kind, double keep)
{
    const zn_journal *j = c->journal;
    const double last = (double)j->entries[j->count - 1].step;
    double mean = NAN;
    fprintf(o, "<polyline class='%s' points='", kind);
    for (int64_t i = 0; i < j->count; i++) {
        const double v = value_at(c, i);
        if (!isfinite(v))
            continue;
        mean = isnan(mean) ? v : keep * mean + (1 - keep) * v;
        fprintf(o, "%.1f,%.1f ", 10 + (W - 20) * (double)j->entries[i].step / last,
                H - 10 - (H - 20) * (mean - c->lo) / (c->hi > c->lo ? c->hi - c->lo : 1));
    }
    fputs("'/>", o);
}

/* An SVG chart of one column: its values, and over those of a loss their running mean. */
static void curve(FILE *o, const zn_journal *j, int column)
{
    chart c = { j, column, is_logarithmic(j, column), INFINITY, -INFINITY };
    int64_t points = 0;
    double latest = NAN;
    for (int64_t i = 0; i < j->count; i++) {
        const double v = value_at(&c, i);
        if (!isfinite(v))
            continue;
        points++;
        latest = j->entries[i].value[column];
        c.lo = v < c.lo ? v : c.lo;
        c.hi = v > c.hi ? v : c.hi;
    }
    if (!points)
        return;
    const bool many = points > 40 && strncmp(j->names[column], "loss", 4) == 0;
    fprintf(o, "<figure><figcaption>%s%s<b>%.5g</b></figcaption>\n<svg viewBox='0 0 %d %d'>",
            title_of(j->names[column]), c.logarithmic ? ", logarithmic" : "", latest, W, H);
    line(o, &c, many ? "all" : "mean", 0);
    if (many)
        line(o, &c, "mean", 0.9);
    fprintf(o, "<text x='12' y='20'>%.5g</text><text x='12' y='%d'>%.5g</text></svg></figure>\n",
            c.logarithmic ? pow(10, c.hi) : c.hi, H - 14, c.logarithmic ? pow(10, c.lo) : c.lo);
}

/* The last entry's share of the time spent waiting for pictures. */
static double waited(const zn_journal *j)
{
    for (int i = 0; i < j->columns && j->count; i++)
        if (strcmp(j->names[i], "waited") == 0 && isfinite(j->entries[j->count - 1].value[i]))
            return j->entries[j->count - 1].value[i];
    return 0;
}

/* The picture itself goes into the page, so that the page is all there is to pass on. A sample that cannot be read is
 * left out: a report must not stop a run. */
static void embed(FILE *o, const char *path)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    zn_map map;
    if (zn_map_open(&map, path) != ZN_OK)
        return;
    fputs("<h2>Held-out images and their results</h2>\n<img src='data:image/png;base64,", o);
    for (size_t i = 0; i < map.size; i += 3) {
        const size_t n = map.size - i < 3 ? map.size - i : 3;
        uint32_t bits = 0;
        for (size_t k = 0; k < 3; k++)
            bits = bits << 8 | (k < n ? map.bytes[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            fputc(k <= n ? digits[bits >> (18 - 6 * k) & 63] : '=', o);
    }
    fputs("'>\n", o);
    zn_map_close(&map);
}

static void escaped(FILE *o, const char *text)
{
    for (; *text; text++)
        if (*text == '&' || *text == '<')
            fputs(*text == '&' ? "&amp;" : "&lt;", o);
        else
            fputc(*text, o);
}

static void head(FILE *o, const zn_journal *j, const char *model)
{
    fputs("<!doctype html><meta charset='utf-8'><title>", o);
    escaped(o, model);
    fputs("</title>\n"
          "<style>body{font:16px sans-serif;max-width:1000px;margin:2em auto;color:#222}"
          ".charts{display:grid;grid-template-columns:1fr 1fr;gap:1em}figure{margin:0}figcaption{font-size:14px}"
          "figcaption b{float:right}svg{width:100%;background:#f6f6f6}polyline{fill:none;stroke-width:1.5}"
          ".all{stroke:#9cf}.mean{stroke:#06c}text{font-size:12px;fill:#666}img{max-width:100%}"
          "pre{background:#f6f6f6;padding:1em}</style>\n"
          "<h1>Training of ",
          o);
    escaped(o, model);
    fprintf(o, "</h1>\n<p>%lld steps. The model waited for images during %.2f %% of the time.</p>\n",
            (long long)(j->count ? j->entries[j->count - 1].step : 0), 100 * waited(j));
}

zn_status zn_journal_report(zn_journal *j, const zn_recipe *recipe)
{
    char text[ZN_RECIPE_TEXT], path[4096];
    zn_outfile out;
    snprintf(path, sizeof path, "%s/report.html", j->folder);
    ZN_TRY(zn_outfile_open(&out, path));
    FILE *o = out.stream;
    const locale_t old = zn_numbers_begin();
    head(o, j, recipe->model);
    snprintf(path, sizeof path, "%s/%s", j->folder, j->sample);
    if (j->sample[0])
        embed(o, path);
    fputs("<h2>Curves</h2>\n<div class='charts'>\n", o);
    for (int i = 0; i < j->columns; i++)
        if (strcmp(j->names[i], "stage") && strcmp(j->names[i], "waited"))
            curve(o, j, i);
    fputs("</div>\n", o);
    zn_recipe_text(recipe, text, sizeof text);
    fputs("<h2>Recipe</h2>\n<pre>", o);
    escaped(o, text);
    fputs("</pre>\n", o);
    zn_numbers_end(old);
    return zn_outfile_commit(&out);
}
