/* zenith convert: converts checkpoints to .safetensors, optionally with another dtype, and quantises networks. */
#include "commands.h"
#include "files/files.h"
#include "ui/facts.h"
#include "ui/progress.h"
#include "ui/report.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int64_t file_size(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode) ? (int64_t)s.st_size : 0;
}

static const char *dtype_name(int dtype)
{
    return dtype < 0             ? "unchanged"
           : dtype == DTYPE_MLX4 ? "MLX4"
           : dtype == DTYPE_MLX8 ? "MLX8"
                                 : zn_dtype_name((zn_dtype)dtype);
}

/* ---- types ---- */

/* Scales and biases of MLX belong to their codes. */
static int is_side(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && (!strcmp(dot, ".scales") || !strcmp(dot, ".biases"));
}

/* How many tensors have which type: "Q4_K 180, Q8_0 12, F32 205". */
static void type_facts(facts *f, const zn_weights *w, int dtype)
{
    int64_t counts[ZN_DTYPE_COUNT] = { 0 };
    const int mlx = dtype == DTYPE_MLX4 || dtype == DTYPE_MLX8;
    for (int64_t i = 0; i < zn_weights_count(w); i++)
        counts[zn_weights_at(w, i)->dtype] += !mlx || !is_side(zn_weights_at(w, i)->name);
    char *text = must_copy("");
    if (f->json)
        json_open(&f->out, "types", '{');
    for (int i = ZN_DTYPE_COUNT - 1; i >= 0; i--) {
        const char *name = mlx && i == ZN_U32 ? dtype_name(dtype) : zn_dtype_name((zn_dtype)i);
        if (!counts[i])
            continue;
        if (f->json) {
            json_integer(&f->out, name, counts[i]);
            continue;
        }
        char *longer = must_print("%s%s%s %lld", text, *text ? ", " : "", name, (long long)counts[i]);
        free(text);
        text = longer;
    }
    if (f->json)
        json_close(&f->out, '}');
    else
        fact_text(f, "types", text);
    free(text);
}

/* Matrices that cannot have the type, since blocks do not end where their rows do. */
static void explain_types(const options *o, const zn_weights *w, int dtype)
{
    const int64_t block = dtype == DTYPE_MLX4 || dtype == DTYPE_MLX8 ? 32 : (int64_t)zn_dtype_block((zn_dtype)dtype);
    const char *kinds[ZN_DTYPE_COUNT] = { NULL };
    int64_t matrices = 0, odd = 0;
    for (int64_t i = 0; i < zn_weights_count(w); i++) {
        const zn_weight *t = zn_weights_at(w, i);
        if (t->rank != 2 || t->shape[0] == 1 || is_side(t->name))
            continue;
        matrices++;
        if (t->shape[1] % block && t->dtype != ZN_U32 && t->dtype != ZN_BF16) { /* BF16: ends of the network */
            odd++;
            kinds[t->dtype] = zn_dtype_name(t->dtype);
        }
    }
    char *list = must_copy("");
    for (int i = ZN_DTYPE_COUNT - 1; i >= 0; i--)
        if (kinds[i]) {
            char *longer = must_print("%s%s%s", list, *list ? " or " : "", kinds[i]);
            free(list);
            list = longer;
        }
    if (odd)
        note(o, "%lld of %lld matrices are stored as %s, since their rows are not a multiple of %lld numbers",
             (long long)odd, (long long)matrices, list, (long long)block);
    free(list);
}

/* Prints what was done; weights: the result, or the input; result: if not all tensors have the type that was asked for,
 * else NULL. */
static void report(const options *o, const zn_weights *weights, const zn_weights *result, const char *format, int dtype)
{
    facts f;
    if (!o->json && o->quiet)
        return;
    facts_begin(&f, o->json);
    fact_text(&f, "input", o->files[0]);
    if (format)
        fact_text(&f, "format", format);
    if (file_size(o->files[0]))
        fact_bytes(&f, "input_bytes", file_size(o->files[0]));
    fact_integer(&f, "tensors", zn_weights_count(weights));
    fact_text(&f, "output", o->files[1]);
    fact_text(&f, "dtype", dtype_name(dtype));
    if (result)
        type_facts(&f, result, dtype);
    fact_bytes(&f, "output_bytes", file_size(o->files[1]));
    facts_end(&f);
}

/* The result, if only some of its tensors have the type that was asked for; NULL: all have, or it cannot be read. */
static zn_weights *mixed_result(const options *o)
{
    zn_weights *result = NULL;
    int64_t i = 0;
    if ((o->dtype != ZN_I8 && o->dtype != ZN_F8_E4M3) || zn_weights_open(o->files[1], &result) != ZN_OK)
        return NULL;
    while (i < zn_weights_count(result) && (int)zn_weights_at(result, i)->dtype != o->dtype)
        i++;
    if (i == zn_weights_count(result))
        note(o, "%s: nothing is stored in 8 bits: no tensor 'NAME.weight' has 4096 numbers or more", o->files[1]);
    return result;
}

/* Another file with the same tensors. */
static int copy(const options *o)
{
    const char *in = o->files[0], *out = o->files[1];
    const int converting = o->dtype >= 0;
    zn_weights *weights = NULL;
    int status = 0;
    if (zn_weights_open(in, &weights) != ZN_OK ||
        zn_weights_save(weights, out, converting, converting ? (zn_dtype)o->dtype : ZN_F32) != ZN_OK) {
        complain_about(in);
        status = EXIT_FAILURE;
    } else {
        zn_weights *result = mixed_result(o);
        report(o, weights, result, zn_weights_format(weights), o->dtype);
        zn_weights_close(result);
    }
    zn_weights_close(weights);
    return status;
}

/* One file with the tensors of all shards. */
static int join(const options *o)
{
    const char *in = o->files[0], *out = o->files[1];
    const int converting = o->dtype >= 0;
    zn_weights *weights = NULL;
    if (zn_weights_join(in, out, converting, converting ? (zn_dtype)o->dtype : ZN_F32) != ZN_OK ||
        zn_weights_open(out, &weights) != ZN_OK) {
        complain_about(in);
        return EXIT_FAILURE;
    }
    zn_weights *result = mixed_result(o);
    report(o, weights, result, zn_weights_format(weights), o->dtype);
    zn_weights_close(result);
    zn_weights_close(weights);
    return 0;
}

/* A packed network. */
static int quantise(const options *o, int dtype)
{
    const char *in = o->files[0], *out = o->files[1];
    const int bits = dtype == DTYPE_MLX4 ? 4 : dtype == DTYPE_MLX8 ? 8 : 0;
    progress p = { .quiet = o->quiet, .line_ms = progress_line_ms() };
    zn_weights *weights = NULL;
    const zn_quantisation how = { .size = sizeof how,
                                  .dtype = bits ? ZN_F16 : (zn_dtype)dtype,
                                  .mlx_bits = bits,
                                  .threads = o->threads,
                                  .progress = progress_tick,
                                  .user = &p };
    progress_begin(&p, "convert", 0, 1);
    const zn_status made = zn_weights_quantise(in, out, &how);
    progress_erase();
    if (made != ZN_OK || zn_weights_open(out, &weights) != ZN_OK) {
        complain_about(in);
        return EXIT_FAILURE;
    }
    explain_types(o, weights, dtype);
    report(o, weights, weights, NULL, dtype);
    zn_weights_close(weights);
    return 0;
}

/* Cuts a path to the folder of its file. */
static void folder_of(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash)
        slash[slash == path] = 0;
    else
        strcpy(path, "."); /* a name has a character at least */
}

/* True if the result would replace a file beside the shards, which may be one of them. */
static int replaces_shard(const char *in, const char *out)
{
    char *from = must_copy(in), *to = must_copy(out);
    if (!is_folder(in))
        folder_of(from);
    folder_of(to);
    const int replaces = file_exists(out) && same_file(from, to);
    free(from);
    free(to);
    return replaces;
}

int convert_run(const options *o)
{
    const char *in = o->files[0], *out = o->files[1];
    const int mlx = o->dtype == DTYPE_MLX4 || o->dtype == DTYPE_MLX8, gguf = has_extension(out, "gguf");
    if (!has_extension(out, "safetensors gguf"))
        return usage_error("convert", "writes .safetensors and .gguf files, not '%s'", out);
    if ((mlx || o->dtype == ZN_I8 || o->dtype == ZN_F8_E4M3) && gguf)
        return usage_error("convert", "%s is written to .safetensors files, not to '%s'", dtype_name(o->dtype), out);
    if (!mlx && !gguf && o->dtype >= ZN_Q4_0)
        return usage_error("convert", "%s is written to .gguf files, not to '%s'", dtype_name(o->dtype), out);
    const int shards = is_folder(in) || has_extension(in, "json");
    if (shards && replaces_shard(in, out))
        return usage_error("convert", "the result would replace '%s', which may be one of the shards", out);
    if (same_file(in, out))
        return usage_error("convert", "the result would replace the input '%s'", in);
    if (lacks_folder(out))
        return EXIT_FAILURE;
    interrupt_catch();
    if (mlx || gguf)
        return quantise(o, o->dtype < 0 ? ZN_BF16 : o->dtype);
    return shards ? join(o) : copy(o);
}
