/* The tokenizer in the metadata of GGUF files. What is accepted turns text into tokens. */
#include "fuzz_weights.h"

#include "base/alloc.h"
#include "pipeline/generate/files.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return mutate_gguf(data, size, max_size, seed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char sample[] = "abc <x>'s 12\n\n na\xc3\xafve e\xcc\x81";
    zn_weights *w = NULL;
    zn_tokenizer *t = NULL;
    if (zn_weights_open_memory(data, size, "fuzz", &w) != ZN_OK)
        return 0;
    const zn_status status = zn_generator_vocabulary(w, "fuzz", &t);
    if ((status == ZN_OK) != (t != NULL))
        abort();
    if (t) {
        zn_tokens out = { 0 };
        if (zn_tokenizer_encode(t, sample, sizeof sample - 1, &out) == ZN_OK && !out.count)
            abort();
        zn_free(out.ids);
    }
    zn_tokenizer_free(t);
    zn_weights_close(w);
    return 0;
}
