/* zenith reconstruct: one image through the encoder and the decoder, and how much of it survived. */
#include "commands.h"
#include "facts.h"
#include "files.h"
#include "report.h"
#include "session.h"
#include "show.h"

#include <stdlib.h>

typedef struct trip {
    zn_image *original, *result, *picture; /* picture: what is written, may be result itself */
    zn_latent *latent;
    zn_image_difference difference;
    double encode_ms, decode_ms;
} trip;

/* Part of the work that is the encoder's, for the progress bar. */
static double encoder_share(const session *s, const zn_image *image)
{
    zn_cost e, d;
    if (zn_model_cost(s->model, ZN_ENCODER, image->width, image->height, &e) != ZN_OK ||
        zn_model_cost(s->model, ZN_DECODER, image->width, image->height, &d) != ZN_OK || !(e.gflop + d.gflop > 0))
        return 0.5;
    return e.gflop / (e.gflop + d.gflop);
}

static zn_status travel(session *s, const char *input, trip *t)
{
    const options *o = s->o;
    const zn_image_read_options reading = { .background = { o->background[0], o->background[1], o->background[2] } };
    zn_status status = zn_image_read(input, &reading, &t->original);
    if (status != ZN_OK)
        return status;
    const double share = encoder_share(s, t->original);
    progress_begin(&s->bar, "encode", 0, share);
    double start = now_ms();
    if ((status = zn_encode(s->codec, t->original, &t->latent)) != ZN_OK)
        return status;
    t->encode_ms = now_ms() - start;
    session_explain(s);
    progress_begin(&s->bar, "decode", share, 1 - share);
    start = now_ms();
    if ((status = zn_decode(s->codec, t->latent, &t->result)) != ZN_OK)
        return status;
    t->decode_ms = now_ms() - start;
    session_explain(s);
    progress_erase();
    if ((status = zn_image_compare(t->original, t->result, &t->difference)) != ZN_OK)
        return status;
    t->picture = t->result;
    return o->compare ? zn_image_side_by_side(t->original, t->result, &t->picture) : ZN_OK;
}

static void report(const session *s, const trip *t)
{
    const options *o = s->o;
    facts f;
    facts_begin(&f, o->json);
    fact_text(&f, "model", s->info->architecture);
    fact_integer(&f, "width", t->original->width);
    fact_integer(&f, "height", t->original->height);
    fact_difference(&f, &t->difference);
    fact_real(&f, "encode_ms", t->encode_ms, 1, "");
    fact_real(&f, "decode_ms", t->decode_ms, 1, "");
    if (o->output)
        fact_text(&f, "output", o->output);
    else if (f.json)
        json_null(&f.out, "output");
    facts_end(&f);
}

static int check_output(const options *o)
{
    if (!o->output)
        return o->compare && !o->show ? usage_error("reconstruct", "--compare needs -o or --show") : 0;
    if (!zn_image_can_write(o->output))
        return usage_error("reconstruct", "cannot write '%s': its name must end in .png, .jpg or .webp", o->output);
    if (same_file(o->output, o->files[0]))
        return usage_error("reconstruct", "the result would replace the input '%s'", o->files[0]);
    return 0;
}

int reconstruct_run(const options *o)
{
    int status = check_output(o);
    if (status)
        return status;
    session s = { 0 };
    trip t = { 0 };
    status = session_open(&s, o, o->model, NEED_ENCODER | NEED_DECODER);
    if (!status) {
        const zn_image_write_options writing = { .quality = o->quality, .lossless = o->lossless };
        if (travel(&s, o->files[0], &t) != ZN_OK ||
            (o->output && zn_image_write(o->output, t.picture, &writing) != ZN_OK)) {
            complain_about(o->files[0]);
            status = EXIT_FAILURE;
        }
    }
    if (!status) {
        report(&s, &t);
        if (o->show)
            show_image(o, t.picture);
    }
    if (t.picture != t.result)
        zn_image_free(t.picture);
    zn_image_free(t.original);
    zn_image_free(t.result);
    zn_latent_free(t.latent);
    session_close(&s);
    return status;
}
