/* zenith convert: converts checkpoints to .safetensors, optionally with another dtype. */
#include "commands.h"
#include "ui/facts.h"
#include "ui/files.h"
#include "ui/progress.h"
#include "ui/report.h"

#include <stdlib.h>
#include <sys/stat.h>

static int64_t file_size(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 ? (int64_t)s.st_size : 0;
}

int convert_run(const options *o)
{
    const char *in = o->files[0], *out = o->files[1];
    if (!has_extension(out, "safetensors"))
        return usage_error("convert", "writes .safetensors files, not '%s'", out);
    if (same_file(in, out))
        return usage_error("convert", "the result would replace the input '%s'", in);
    interrupt_catch();
    zn_weights *weights = NULL;
    int status = 0;
    const int converting = o->dtype >= 0;
    if (zn_weights_open(in, &weights) != ZN_OK ||
        zn_weights_save(weights, out, converting, converting ? (zn_dtype)o->dtype : ZN_F32) != ZN_OK) {
        complain_about(in);
        status = EXIT_FAILURE;
    } else if (o->json || !o->quiet) {
        facts f;
        facts_begin(&f, o->json);
        fact_text(&f, "input", in);
        fact_text(&f, "format", zn_weights_format(weights));
        fact_bytes(&f, "input_bytes", file_size(in));
        fact_integer(&f, "tensors", zn_weights_count(weights));
        fact_text(&f, "output", out);
        fact_text(&f, "dtype", converting ? zn_dtype_name((zn_dtype)o->dtype) : "unchanged");
        fact_bytes(&f, "output_bytes", file_size(out));
        facts_end(&f);
    }
    zn_weights_close(weights);
    return status;
}
