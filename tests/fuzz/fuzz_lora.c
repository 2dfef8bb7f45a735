/* LoRA files: names, shapes and factors. */
#include "fuzz_weights.h"

#include "models/zimage/lora.h"

#include <math.h>

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return mutate_safetensors(data, size, max_size, seed);
}

static const zn_zimage_form small = { .dim = 4,
                                      .heads = 1,
                                      .layers = 1,
                                      .refiners = 1,
                                      .caption = 4,
                                      .channels = 1,
                                      .inner = 4,
                                      .time = 4,
                                      .modulation = 4,
                                      .axes = { 0, 2, 2 },
                                      .eps = 1e-5f,
                                      .theta = 256,
                                      .time_scale = 1000 };

/* Reads what an adapter promises. */
static void check_adapter(const zn_adapter *a)
{
    float *row = malloc(sizeof *row * (size_t)(a->rank > 256 ? a->rank : 256));
    if (a->rank < 1 || !isfinite(a->factor) || !row)
        abort();
    for (int i = 0; i < a->rank; i++)
        zn_packed_row(&a->a, i, 0, 4, row); /* the narrowest layer */
    zn_packed_row(&a->b, 3, 0, a->rank, row);
    free(row);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zn_weights *w;
    zn_lora l;
    if (zn_weights_open_memory(data, size, "fuzz", &w) != ZN_OK || zn_lora_read(w, 0.5, &small, &l) != ZN_OK)
        return 0;
    for (int i = 0; i < l.count; i++)
        check_adapter(&l.adapters[i]);
    zn_lora_close(&l);
    return 0;
}
