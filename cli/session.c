/* A model ready to run: name to weights, weights to codec. */
#include "session.h"

#include "report.h"

#include <stdlib.h>
#include <string.h>

static const char random_prefix[] = "random:";

int model_open(const options *o, const char *name, zn_model **out)
{
    const size_t n = sizeof random_prefix - 1;
    if (name && !strncmp(name, random_prefix, n)) {
        if (zn_model_random(name + n, o->seed, out) != ZN_OK) {
            complain_about(name);
            return EXIT_FAILURE;
        }
        note(o, "the weights of %s are random (seed %llu): pictures will be noise", name + n,
             (unsigned long long)o->seed);
        return 0;
    }
    if (zn_model_find(name, out) != ZN_OK) {
        complain("%s", zn_error_text());
        return EXIT_FAILURE;
    }
    return 0;
}

int session_open(session *s, const options *o, const char *name, unsigned needs)
{
    const progress bar = s->bar;
    session_close(s);
    *s = (session){ .o = o, .bar = bar };
    s->bar.quiet = o->quiet;
    const int status = model_open(o, name, &s->model);
    if (status)
        return status;
    s->info = zn_model_info_of(s->model);
    const int no_encoder = (needs & NEED_ENCODER) && !s->info->has_encoder;
    if (no_encoder || ((needs & NEED_DECODER) && !s->info->has_decoder)) {
        complain("%s: the model %s has no %s", s->info->path, s->info->architecture,
                 no_encoder ? "encoder" : "decoder");
        return EXIT_FAILURE;
    }
    if ((needs & NEED_RESTORER) && !s->info->restores) {
        complain("%s: the model %s is an autoencoder and restores nothing", s->info->path, s->info->architecture);
        return EXIT_FAILURE;
    }
    const zn_codec_options codec = { .threads = o->threads,
                                     .precision = (zn_precision)o->precision,
                                     .tile = o->tile,
                                     .memory = o->memory,
                                     .progress = progress_tick,
                                     .user = &s->bar };
    interrupt_catch();
    if (zn_codec_new(s->model, &codec, &s->codec) != ZN_OK) {
        complain_about(s->info->path);
        return EXIT_FAILURE;
    }
    if (o->verbose)
        note(o, "model %s from %s", s->info->architecture, s->info->path);
    return 0;
}

void session_close(session *s)
{
    progress_erase();
    zn_codec_free(s->codec);
    zn_model_free(s->model);
    free(s->wrote);
    s->wrote = NULL;
    s->codec = NULL;
    s->model = NULL;
}

void session_explain(const session *s)
{
    const char *line = s->o->verbose && s->codec ? zn_codec_plan(s->codec) : "";
    while (*line) {
        const int length = (int)strcspn(line, "\n");
        note(s->o, "%.*s", length, line);
        line += length + (line[length] == '\n');
    }
}
