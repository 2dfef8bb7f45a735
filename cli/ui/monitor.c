/* The progress line of a training run. The curve covers the whole stage: when full, pairs of points are merged. */
#include "ui/monitor.h"

#include "commands.h"
#include "files/files.h"
#include "options/compute.h"
#include "options/model_names.h"
#include "ui/report.h"
#include "ui/terminal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* WIDE: columns needed for a line with a stage and the whole curve. */
enum { CURVE_TEXT = MONITOR_CURVE * 3 + 1, WIDE = 120 };

static void join_pairs(monitor *m)
{
    for (int i = 0; i < MONITOR_CURVE / 2; i++)
        m->sums[i] = m->sums[2 * i] + m->sums[2 * i + 1];
    m->count = MONITOR_CURVE / 2;
    m->span *= 2;
    m->in_last = m->span;
}

static void note_loss(monitor *m, const zn_train_progress *p)
{
    if (m->stage != p->stage_number) { /* a new stage has another kind of loss */
        m->stage = p->stage_number;
        m->count = 0;
        m->span = 1;
        m->in_last = 1;
    }
    if (!(p->loss > 0))
        return;
    if (!m->count || m->in_last == m->span) {
        if (m->count == MONITOR_CURVE)
            join_pairs(m);
        m->sums[m->count++] = 0;
        m->in_last = 0;
    }
    m->sums[m->count - 1] += log(p->loss);
    m->in_last++;
}

static int has_blocks(void)
{
    static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };
    for (int i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return strstr(value, "UTF-8") || strstr(value, "utf8") || strstr(value, "UTF8");
    }
    return 0;
}

/* Draws the curve so far: blocks if the locale supports them, else digits. A narrow terminal gets half the points. */
static void draw_curve(const monitor *m, char text[CURVE_TEXT])
{
    static const char *const blocks[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    static const char *const digits[] = { "0", "1", "2", "3", "4", "5", "6", "7" };
    const char *const *marks = has_blocks() ? blocks : digits;
    double value[MONITOR_CURVE], low = INFINITY, high = -INFINITY;
    for (int i = 0; i < m->count; i++) {
        value[i] = m->sums[i] / (i == m->count - 1 ? m->in_last : m->span);
        low = value[i] < low ? value[i] : low;
        high = value[i] > high ? value[i] : high;
    }
    text[0] = 0;
    const int each = m->count > MONITOR_CURVE / 2 && terminal_columns(STDERR_FILENO) < WIDE ? 2 : 1;
    for (int i = (m->count - 1) % each; i < m->count; i += each)
        strcat(text, marks[high > low ? (int)((value[i] - low) / (high - low) * 7.999) : 0]);
}

/* Writes to stdout unless it is a terminal or used by --json; else to stderr unless that is a terminal. */
static void log_line(const monitor *m, const char *text)
{
    if (m->o->quiet)
        return;
    if (!m->o->json && !isatty(STDOUT_FILENO)) {
        say("%s\n", text);
        (void)say_flush();
    } else if (!isatty(STDERR_FILENO)) {
        note(m->o, "%s", text);
    }
}

static int time_to_log(monitor *m)
{
    const double now = now_ms();
    if (m->log_every <= 0 || now - m->logged < m->log_every)
        return 0;
    m->logged = now;
    return 1;
}

static int tick_encoding(monitor *m, const zn_train_progress *p)
{
    char label[PROGRESS_LABEL];
    snprintf(label, sizeof label, "%lld/%lld images encoded", (long long)p->encoded, (long long)p->to_encode);
    if (time_to_log(m))
        log_line(m, label);
    progress_begin(&m->bar, label, 0, 1);
    return progress_tick(&m->bar, (double)p->encoded / (double)p->to_encode);
}

static int tick(void *user, const zn_train_progress *p)
{
    monitor *m = user;
    if (p->to_encode)
        return tick_encoding(m, p);
    char label[PROGRESS_LABEL], stage[48] = "", psnr[24] = "", pruned[24] = "", curve[CURVE_TEXT];
    note_loss(m, p);
    if (p->stage_count > 1)
        snprintf(stage, sizeof stage, ", %s (%d of %d)", p->stage, p->stage_number, p->stage_count);
    if (p->eval_psnr > 0)
        snprintf(psnr, sizeof psnr, ", %.2f dB", p->eval_psnr);
    if (p->eval_pruned >= 0)
        snprintf(pruned, sizeof pruned, ", %.0f %% pruned", 100 * p->eval_pruned);
    if (time_to_log(m)) {
        char left[32];
        duration_text(p->seconds_left * 1000, left, sizeof left);
        snprintf(label, sizeof label, "step %lld/%lld, loss %.4g, %.1f images/s, about %s left%s%s%s",
                 (long long)p->step, (long long)p->steps, p->loss, p->images_per_second, left, stage, psnr, pruned);
        log_line(m, label);
    }
    draw_curve(m, curve);
    /* The parts that a narrow terminal may cut off come last. */
    snprintf(label, sizeof label, "%lld/%lld, loss %.3g %s, %.1f img/s%s%s%s", (long long)p->step, (long long)p->steps,
             p->loss, curve, p->images_per_second, stage, psnr, pruned);
    progress_begin(&m->bar, label, 0, 1);
    m->bar.left_ms = p->seconds_left * 1000;
    return progress_tick(&m->bar, (double)p->step / (double)p->steps);
}

static int stop(void *user)
{
    (void)user;
    return interrupted();
}

static void tell_skipped(void *user, const char *name, const char *why)
{
    progress_skipped(&((monitor *)user)->bar, name, why);
}

static void tell(void *user, const char *sentence) { note(((monitor *)user)->o, "%s", sentence); }

options monitor_options(const options *o)
{
    options mine = *o;
    const int names_run = o->file_count == 1 && (is_folder(o->files[0]) || !file_exists(o->files[0]));
    if (o->resume && !o->output && names_run) {
        mine.output = o->files[0];
        mine.file_count = 0;
    }
    return mine;
}

int monitor_check(const options *o)
{
    if (!o->data && !o->resume)
        return usage_error(o->command->name, "--data is needed: a folder of images or an .lmdb data set");
    return o->output ? lacks_folders(o->output) : usage_error(o->command->name, "-o is needed: the folder for the run");
}

/* True if the sentence is about a value of --set, which it begins with. */
static int is_of_setting(const options *o, const char *why)
{
    int found = 0;
    for (int i = 0; o->settings[i] && !found; i++) {
        char *word = must_print("'%s':", o->settings[i]);
        found = !strncmp(why, word, strlen(word));
        free(word);
    }
    return found;
}

/* The library's sentence gets the program's advice if it says that there is no such recipe or student. Returns the exit
 * status. */
static int complain_of_recipe(const options *o, const char *why)
{
    if (is_of_setting(o, why))
        return usage_error(o->command->name, "%s", why);
    const int distills = o->command->bit == CMD_DISTILL;
    const char *kind = distills ? "student" : "recipe";
    const char *name = distills ? o->student : o->file_count ? o->files[0] : NULL;
    char *unknown = must_print("no %s is called '%s'", kind, name ? name : "");
    const char *near = name ? nearest_name(name, distills ? zn_distill_student : zn_train_preset) : NULL;
    if (strncmp(why, unknown, strlen(unknown)))
        complain("%s", why);
    else if (near)
        complain("%s, did you mean '%s'? 'zenith help %s' lists the %ss", unknown, near, o->command->name, kind);
    else
        complain("%s; 'zenith help %s' lists the %ss", why, o->command->name, kind);
    free(unknown);
    return EXIT_FAILURE;
}

int print_recipe(const options *o, zn_status status, char *yaml)
{
    int code = 0;
    if (status == ZN_OK)
        say_bytes(yaml, strlen(yaml));
    else
        code = complain_of_recipe(o, zn_error_text());
    zn_memory_free(yaml);
    return code;
}

zn_run_options monitor_begin(monitor *m, const options *o, zn_ranks *ranks)
{
    interrupt_catch();
    *m = (monitor){ .bar.quiet = o->quiet,
                    .o = o,
                    .ranks = zn_ranks_count(ranks),
                    .logged = now_ms(),
                    .log_every = progress_line_ms() };
    m->compute = compute_options(o, NULL);
    return (zn_run_options){ .data = o->data,
                             .folder = o->output,
                             .from = o->from,
                             .resume = o->resume,
                             .seed = o->run_seed >= 0 ? &o->run_seed : NULL,
                             .steps = o->steps,
                             .settings = o->settings,
                             .compute = &m->compute,
                             .ranks = ranks,
                             .progress = tick,
                             .stop = stop,
                             .skipped = tell_skipped,
                             .remark = tell,
                             .user = m };
}

void fact_run(facts *f, const options *o, int64_t steps, int64_t skipped, double loss)
{
    fact_text(f, "run", o->output);
    fact_integer(f, "steps", steps);
    if (f->json || skipped)
        fact_integer(f, "skipped", skipped);
    fact_real(f, "loss", loss, 5, "");
}

void fact_model(facts *f, const options *o, double seconds)
{
    char *path = must_print("%s/model.safetensors", o->output);
    if (access(path, F_OK)) { /* a generator is a folder */
        free(path);
        path = must_print("%s/model", o->output);
    }
    fact_text(f, "model", path);
    free(path);
    fact_real(f, "seconds", seconds, 1, " s");
}

/* Quotes a word for the shell if needed. */
static char *shell_word(const char *word)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./+,:=@%";
    if (word[0] && !word[strspn(word, plain)])
        return must_copy(word);
    char *text = must_alloc(NULL, 4 * strlen(word) + 3), *end = text;
    *end++ = '\'';
    for (; *word; word++) {
        const char *piece = *word == '\'' ? "'\\''" : word;
        const size_t length = *word == '\'' ? 4 : 1;
        memcpy(end, piece, length);
        end += length;
    }
    memcpy(end, "'", 2);
    return text;
}

static void tell_how_to_go_on(const monitor *m)
{
    const options *o = m->o;
    char *run = shell_word(o->output), ranks[32] = "";
    if (m->ranks > 1)
        snprintf(ranks, sizeof ranks, "mpirun -np %d ", m->ranks);
    note(o, "continue with: %szenith %s --resume %s", ranks, o->command->name, run);
    free(run);
}

int monitor_end(const monitor *m, zn_status status, int64_t steps)
{
    const options *o = m->o;
    progress_erase();
    if (status == ZN_OK) {
        if (!steps)
            note(o, "%s is finished: nothing left to do", o->output);
        return 0;
    }
    int code = EXIT_FAILURE;
    char *why = must_copy(zn_error_text());
    /* The library does not know the commands, so for a missing model the program prints its own message with advice. */
    if (status != ZN_ENOTFOUND || !(is_missing_model(o->from) || is_missing_model(o->teacher)))
        code = complain_of_recipe(o, why);
    free(why);
    if ((status == ZN_ECANCELLED && is_folder(o->output)) || (status == ZN_EIO && steps > 0))
        tell_how_to_go_on(m);
    return code;
}
