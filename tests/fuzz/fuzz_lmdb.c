/* LMDB data sets: what opens has names, and every record is found by its name. liblmdb itself is not instrumented, but
 * it reads through a map, and what lies outside of that stops the program. */
#include "io/dataset/dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char path[64];

static void remove_file(void) { unlink(path); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!path[0]) {
        snprintf(path, sizeof path, "/tmp/zenith-fuzz-%ld.lmdb", (long)getpid());
        atexit(remove_file);
    }
    unlink(path); /* a file that replaces another waits for the disk */
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f))
        abort();
    zn_dataset *d;
    zn_image *image;
    if (zn_dataset_open(path, &d) != ZN_OK)
        return 0;
    for (int64_t i = 0; i < zn_dataset_count(d); i++) {
        if (!zn_dataset_name(d, i)[0])
            abort();
        if (zn_dataset_read(d, i, &image) != ZN_OK && !strstr(zn_error_text(), "record '"))
            abort();
        zn_image_free(image);
    }
    zn_dataset_close(d);
    return 0;
}
