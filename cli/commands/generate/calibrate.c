/* zenith generate --calibrate: which layers need more precision than FP8, in place of an image. */
#include "commands/generate/generate.h"

#include "ui/facts.h"
#include "ui/progress.h"
#include "ui/report.h"

#include <stdlib.h>

static void report_layer(void *self, const char *layer, double error, int kept)
{
    facts *f = self;
    if (!f->json) {
        say("%s  %.2e%s\n", layer, error, kept ? "  bf16" : "");
        return;
    }
    json_open(&f->out, NULL, '{');
    json_text(&f->out, "layer", layer);
    json_real(&f->out, "error", error);
    json_bool(&f->out, "kept", kept);
    json_close(&f->out, '}');
}

int generate_calibrate(const options *o, zn_generator *generator, zn_generation *request)
{
    facts f;
    const zn_calibration c = { .size = sizeof c,
                               .file = *o->calibrate ? o->calibrate : NULL,
                               .keep = o->share,
                               .visit = o->quiet && !o->json ? NULL : report_layer,
                               .user = &f };
    if (!o->guidance)
        request->guidance = ZN_GUIDANCE_NONE; /* not the model's own: it cannot be measured */
    facts_begin(&f, o->json);
    if (f.json)
        json_open(&f.out, "layers", '[');
    const zn_status measured = zn_generator_calibrate(generator, request, &c);
    progress_erase();
    if (measured != ZN_OK)
        complain("%s", zn_error_text());
    if (f.json)
        json_close(&f.out, ']');
    facts_end(&f);
    return measured == ZN_OK ? 0 : EXIT_FAILURE;
}
