/* The progress bar on stderr, and the signals that cancel the work through the same callback. */
#include "ui/progress.h"

#include "ui/report.h"
#include "ui/terminal.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_MS = 1000, EVERY_MS = 100, LINE_SECONDS = 5, BAR = 24, LEAST_BAR = 6 };

static int visible;
static volatile sig_atomic_t caught;

static void on_signal(int number) { caught = number; }

void interrupt_catch(void)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    struct sigaction old; /* a closed terminal, unless nohup ignores it */
    if (sigaction(SIGHUP, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &action, NULL);
}

int interrupted(void) { return caught; }

void progress_begin(progress *p, const char *label, double base, double scale)
{
    if (p->started == 0)
        p->started = now_ms();
    p->base = base;
    p->scale = scale;
    /* A long label is cut at the start, because its end is the name of the file. */
    const size_t length = strlen(label), capacity = sizeof p->label - 1;
    size_t skip = length > capacity ? length - capacity : 0;
    while (skip && ((unsigned char)label[skip] & 0xC0) == 0x80)
        skip++;
    memcpy(p->label, label + skip, length - skip + 1);
    for (char *c = p->label; *c; c++)
        if ((unsigned char)*c < 32 || *c == 127)
            *c = '?';
}

void duration_text(double ms, char *text, size_t size)
{
    const long s = (long)(ms / 1000 + 0.5);
    if (s < 60)
        snprintf(text, size, "%lds", s);
    else if (s < 3600)
        snprintf(text, size, "%ldm%02lds", s / 60, s % 60);
    else
        snprintf(text, size, "%ldh%02ldm", s / 3600, s / 60 % 60);
}

double progress_line_ms(void)
{
    const char *text = getenv("ZENITH_LOG_SECONDS");
    char *end;
    const double seconds = text ? strtod(text, &end) : LINE_SECONDS;
    return 1000 * (text && (end == text || *end || !(seconds >= 0)) ? LINE_SECONDS : seconds);
}

static int characters(const char *text)
{
    int count = 0;
    for (; *text; text++)
        count += ((unsigned char)*text & 0xC0) != 0x80;
    return count;
}

/* Ends the text after `columns` characters. */
static void cut(char *text, int columns)
{
    int seen = 0;
    for (char *c = text; *c; c++)
        if (((unsigned char)*c & 0xC0) != 0x80 && ++seen > columns) {
            *c = 0;
            return;
        }
}

/* Time spent and, as far as it is known, time left: "12s, about 3m05s left". */
static void times(const progress *p, double fraction, double elapsed, char *text, size_t size)
{
    char left[32];
    duration_text(elapsed, text, size);
    if (p->left_ms <= 0 && fraction < 0.02) /* estimates would be far off */
        return;
    duration_text(p->left_ms > 0 ? p->left_ms : elapsed * (1 - fraction) / fraction, left, sizeof left);
    const size_t length = strlen(text);
    snprintf(text + length, size - length, ", about %s left", left);
}

static void print_line(const progress *p, double fraction, double elapsed)
{
    char spent[80];
    times(p, fraction, elapsed, spent, sizeof spent);
    fprintf(stderr, "zenith: %s: %d%%, %s\n", p->label, (int)(fraction * 100), spent);
}

static void draw(const progress *p, double fraction, double elapsed)
{
    char bar[BAR + 1], spent[80];
    times(p, fraction, elapsed, spent, sizeof spent);
    char rest[PROGRESS_LABEL + 96], line[sizeof rest + BAR + 2];
    snprintf(rest, sizeof rest, " %3d%%  %s  %s", (int)(fraction * 100), spent, p->label);
    const int columns = terminal_columns(STDERR_FILENO) - 1, capacity = columns - 2 - characters(rest);
    const int length = capacity > BAR         ? BAR
                       : capacity < LEAST_BAR ? LEAST_BAR
                                              : capacity; /* the text takes precedence over the bar */
    for (int i = 0; i < length; i++)
        bar[i] = i < (int)(fraction * length) ? '#' : '.';
    bar[length] = 0;
    snprintf(line, sizeof line, "[%s]%s", bar, rest);
    cut(line, columns);
    fprintf(stderr, "\r\033[K%s", line);
    fflush(stderr);
    visible = 1;
}

int progress_tick(void *user, double fraction)
{
    progress *p = user;
    const double now = now_ms(), elapsed = now - p->started, since = now - (p->drawn > 0 ? p->drawn : p->started);
    const int terminal = isatty(STDERR_FILENO);
    const double whole = fmin(fmax(p->base + p->scale * fraction, 0), 1);
    if (!p->quiet && terminal && elapsed >= FIRST_MS && since >= EVERY_MS) {
        p->drawn = now;
        draw(p, whole, elapsed);
    } else if (!p->quiet && !terminal && !report_is_silent() && p->line_ms > 0 && since >= p->line_ms) {
        p->drawn = now;
        print_line(p, whole, elapsed);
    }
    return caught != 0;
}

enum { MOST_LINES = 20 };

void progress_skipped(void *user, const char *name, const char *why)
{
    const int count = ++((progress *)user)->skipped;
    if (count <= MOST_LINES)
        complain_of(name, why);
    else if (count == MOST_LINES + 1)
        complain("more images cannot be used");
}

void progress_remark(void *user, const char *text)
{
    progress *p = user;
    const options o = { .quiet = p->quiet };
    const int count = ++p->remarks;
    if (count <= MOST_LINES)
        note(&o, "%s", text);
    else if (count == MOST_LINES + 1)
        note(&o, "more videos have faults");
}

void progress_erase(void)
{
    if (!visible)
        return;
    visible = 0;
    fputs("\r\033[K", stderr);
    fflush(stderr);
}
