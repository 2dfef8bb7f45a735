/* Latent files of all kinds, the first and the last of a batch: every number is looked at, and the facts that were read
 * can be written and read again. */
#include "fuzz_crc.h"
#include "io/latent/latent_file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Latent `index` of the file; how many there are, 0 for a file that is refused. */
static int64_t look(const zn_source *source, int64_t index)
{
    zn_latent *z = NULL;
    int64_t all = 0;
    const zn_status status = zn_latent_read_bytes_at(source, index, &all, &z);
    if ((status == ZN_OK) != (z != NULL) || (z && all < 1))
        abort();
    if (!z)
        return 0;
    if (zn_latent_check(z, "fuzz", ZN_EFORMAT) != ZN_OK)
        abort();
    const size_t count = zn_latent_count(z);
    volatile float sum = 0;
    for (size_t i = 0; i < count; i++)
        sum = sum + z->data[i];
    zn_latent_facts facts;
    zn_latent_get_facts(z, &facts);
    zn_latent copy = { .width = z->width, .height = z->height, .channels = z->channels };
    for (int i = 0; i < facts.count; i++)
        if (zn_latent_set_fact(&copy, "fuzz", facts.key[i], facts.value[i]) != ZN_OK)
            abort();
    if (copy.image_width != z->image_width || copy.image_height != z->image_height || copy.downscale != z->downscale ||
        copy.image_frames != z->image_frames || !copy.grey != !z->grey || copy.raw != z->raw ||
        strcmp(copy.model, z->model))
        abort();
    zn_latent_free(z);
    return all;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const zn_source source = { data, size, "fuzz", NULL };
    const int64_t all = look(&source, 0);
    if (all > 1 && look(&source, all - 1) != all)
        abort();
    return 0;
}
