/* HEIC and AVIF reader. */
#include "fuzz_image.h"

/* libdav1d forgets a few bytes of a damaged file. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libdav1d\n"; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_image("heic", data, size) && fuzz_image("avif", data, size) ? -1 : 0;
}
