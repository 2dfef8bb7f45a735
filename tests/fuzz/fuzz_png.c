/* PNG reader. */
#include "fuzz_crc.h"
#include "fuzz_image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return fuzz_image("png", data, size); }
