/* .safetensors reader. The mutator puts the header's length right most of the time, or little else would be reached. */
#include "fuzz_weights.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    size = LLVMFuzzerMutate(data, size, max_size);
    if (seed % 8 == 0 || size < 10)
        return size;
    data[8] = '{';
    size_t end = size;
    while (end > 9 && data[end - 1] != '}')
        end--;
    const uint64_t length = end - 8;
    memcpy(data, &length, sizeof length);
    return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_weights(data, size);
    return 0;
}
