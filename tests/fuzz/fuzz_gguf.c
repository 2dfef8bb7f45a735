/* GGUF reader. Tensors that are accepted are also converted to floats. */
#include "fuzz_weights.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return mutate_gguf(data, size, max_size, seed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zn_weights *w = NULL;
    fuzz_weights(data, size);
    if (zn_weights_open_memory(data, size, "fuzz", &w) != ZN_OK)
        return 0;
    for (int64_t i = 0; i < zn_weights_count(w); i++) {
        const zn_weight *t = zn_weights_at(w, i);
        const size_t size_of = zn_dtype_size(t->dtype);
        float floats[256];
        for (size_t at = 0; at < t->bytes; at += size_of)
            zn_to_f32(floats, (const uint8_t *)t->data + at, t->dtype, zn_dtype_block(t->dtype));
    }
    zn_weights_close(w);
    return 0;
}
