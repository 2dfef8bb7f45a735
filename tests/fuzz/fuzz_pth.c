/* Whole PyTorch files. Half of the mutations change one entry and build the archive anew, so that it stays an archive.
 */
#include "fuzz_weights.h"
#include "io/weights/zip.h"
#include "weights_make.h"

enum { MAX_ENTRIES = 64 };

/* One entry of the archive mutated; 0 if it is not an archive or the result does not fit. */
static size_t mutate_entry(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    zn_zip zip;
    zip_item items[MAX_ENTRIES];
    char names[MAX_ENTRIES][64];
    uint8_t *changed = NULL;
    size_t result = 0;
    if (zn_zip_open(&zip, data, size, "fuzz") != ZN_OK)
        return 0;
    const int count = zip.count < MAX_ENTRIES ? (int)zip.count : MAX_ENTRIES,
              victim = count ? (int)(seed % (unsigned)count) : 0;
    int usable = count > 0;
    for (int i = 0; i < count && usable; i++) {
        const zn_zip_entry *e = &zip.entries[i];
        const uint8_t *content = NULL;
        size_t length = 0;
        const size_t n = e->name_length < 63 ? e->name_length : 63;
        memcpy(names[i], e->name, n);
        names[i][n] = 0;
        usable = zn_zip_read(&zip, e, &content, &length) == ZN_OK;
        items[i] = (zip_item){ .name = names[i], .data = content, .size = length };
    }
    if (usable) {
        const size_t capacity = items[victim].size + 256;
        changed = calloc(1, capacity);
        memcpy(changed, items[victim].data, items[victim].size);
        items[victim].size = LLVMFuzzerMutate(changed, items[victim].size, capacity);
        items[victim].data = changed;
        bytes b = make_zip(items, count, seed >> 8 & 1);
        if (b.size <= max_size) {
            memcpy(data, b.data, b.size);
            result = b.size;
        }
        bytes_free(&b);
    }
    free(changed);
    zn_zip_close(&zip);
    return result;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    const size_t rebuilt = seed & 1 << 20 ? mutate_entry(data, size, max_size, seed) : 0;
    return rebuilt ? rebuilt : LLVMFuzzerMutate(data, size, max_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_weights(data, size);
    return 0;
}
