/* The tokenizer of a generator: tokenizer.json, or the metadata of a GGUF file. */
#include "base/fail.h"
#include "base/text.h"
#include "io/weights/reader.h"
#include "pipeline/generate/files.h"

#include <string.h>

/* The rules of Qwen's tokenizers are compiled in; a file with other rules would give wrong tokens. */
static zn_status check_rules(const zn_weights *w, const char *file)
{
    const char *model = zn_weights_metadata(w, "tokenizer.ggml.model"),
               *pre = zn_weights_metadata(w, "tokenizer.ggml.pre");
    if (!model)
        return ZN_FAIL(ZN_ENOTFOUND, "%s has no tokenizer in its metadata: name tokenizer.json of Qwen3-4B", file);
    if (strcmp(model, "gpt2") != 0 || (pre && strcmp(pre, "qwen2") != 0))
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: its tokenizer (%s, %s) is not that of Qwen", file, model, pre ? pre : "?");
    return ZN_OK;
}

zn_status zn_generator_vocabulary(const zn_weights *w, const char *file, zn_tokenizer **out)
{
    *out = NULL;
    zn_token_lists l = { 0 };
    ZN_TRY(check_rules(w, file));
    l.token_count = zn_gguf_array(w, "tokenizer.ggml.tokens", ZN_GGUF_STRING, &l.tokens);
    l.merge_count = zn_gguf_array(w, "tokenizer.ggml.merges", ZN_GGUF_STRING, &l.merges);
    if (zn_gguf_array(w, "tokenizer.ggml.token_type", ZN_GGUF_I32, &l.types) != l.token_count)
        return ZN_FAIL(ZN_EFORMAT, "%s: tokens and their types differ in number", file);
    return zn_tokenizer_read_lists(&l, file, out);
}

zn_status zn_generator_tokenizer(const char *file, zn_tokenizer **out)
{
    zn_weights *w;
    *out = NULL;
    if (!zn_ending(file, ".gguf"))
        return zn_tokenizer_open(file, out);
    ZN_TRY(zn_weights_open(file, &w));
    const zn_status status = zn_generator_vocabulary(w, file, out);
    zn_weights_close(w);
    return status;
}
