/* The pickle reader: the input is the pickle, in an archive with three storages. */
#include "fuzz_weights.h"
#include "weights_make.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t storage[256];
    const zip_item items[] = { { .name = "t/data.pkl", .data = data, .size = size },
                               { .name = "t/byteorder", .data = "little", .size = 6 },
                               { .name = "t/data/0", .data = storage, .size = 256 },
                               { .name = "t/data/1", .data = storage, .size = 24 },
                               { .name = "t/data/2", .data = storage, .size = 0 } };
    bytes b = make_zip(items, 5, ZIP64_NEVER);
    fuzz_weights(b.data, b.size);
    bytes_free(&b);
    return 0;
}
