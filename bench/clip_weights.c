/* Writes a video autoencoder with random weights in bf16, as large as the published file: what the memory of clips is
 * measured with (docs/results/wan.md).
 *
 *     clip-weights wan21-vae wan21-vae.safetensors */
#include "base/alloc.h"
#include "base/convert.h"
#include "base/fail.h"
#include "io/weights/writer.h"
#include "models/model.h"

#include <stdio.h>

static int fail(const char *what)
{
    fprintf(stderr, "clip-weights: %s: %s\n", what, zn_error_text());
    return 1;
}

/* Files have outputs and inputs first. The values are as random in any order. */
static zn_status describe(const zn_model_parameter *p, zn_weight *out)
{
    const int rank = p->shape.rank;
    const bool convolution = p->layout == ZN_LAYOUT_CONV || p->layout == ZN_LAYOUT_CONV3D;
    const size_t count = (size_t)zn_shape_count(p->shape);
    void *values;
    ZN_TRY(zn_alloc_for("weights", sizeof(uint16_t) * count, &values));
    zn_from_f32(values, ZN_BF16, p->data, count);
    *out = (zn_weight){ .name = p->name, .dtype = ZN_BF16, .rank = rank, .data = values };
    for (int i = 0; i < rank; i++)
        out->shape[i] = p->shape.dim[!convolution ? i : i < 2 ? rank - 1 - i : i - 2];
    return ZN_OK;
}

static zn_status write_model(const zn_model *m, const char *path)
{
    zn_weight *tensors;
    ZN_TRY(zn_alloc_for("weights", sizeof *tensors * (size_t)m->count, (void **)&tensors));
    zn_status status = ZN_OK;
    int made = 0;
    while (made < m->count && status == ZN_OK)
        if ((status = describe(&m->parameters[made], &tensors[made])) == ZN_OK)
            made++;
    if (status == ZN_OK)
        status = zn_safetensors_write(path, tensors, made, NULL, 0);
    for (int i = 0; i < made; i++)
        zn_free((void *)(uintptr_t)tensors[i].data);
    zn_free(tensors);
    return status;
}

int main(int count, char **arguments)
{
    zn_model *m;
    if (count != 3) {
        fprintf(stderr, "usage: clip-weights ARCHITECTURE FILE\n");
        return 2;
    }
    if (zn_model_random(arguments[1], 1, &m) != ZN_OK)
        return fail(arguments[1]);
    const int status = write_model(m, arguments[2]) == ZN_OK ? 0 : fail(arguments[2]);
    zn_model_free(m);
    return status;
}
