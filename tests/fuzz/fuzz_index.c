/* The index.json of shards. What is accepted names each shard once, and none outside the folder. */
#include "pipeline/generate/part_index.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zn_part_index x;
    if (zn_part_index_read(data, size, "fuzz", &x) != ZN_OK) {
        if (!zn_error_text()[0])
            abort();
        return 0;
    }
    for (int i = 0; i < x.count; i++) {
        const char *s = x.shards[i];
        if (!*s || *s == '/' || strcmp(s, "..") == 0 || strncmp(s, "../", 3) == 0 || strstr(s, "/../"))
            abort();
        for (int k = 0; k < i; k++)
            if (strcmp(s, x.shards[k]) == 0)
                abort();
    }
    zn_part_index_free(&x);
    return 0;
}
