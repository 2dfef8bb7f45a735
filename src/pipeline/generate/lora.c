/* LoRAs of a generator: the files stay open, their pairs are put together into one list. */
#include "base/alloc.h"
#include "base/fail.h"
#include "pipeline/generate/generate.h"

#include <math.h>
#include <string.h>

static zn_status read_form(const zn_generator *g, zn_zimage_form *form)
{
    zn_part_files files;
    zn_zimage_naming naming;
    ZN_TRY(zn_part_open(g->paths.part[ZN_GENERATOR_TRANSFORMER], ZN_GENERATOR_TRANSFORMER, &files));
    const zn_status status = zn_zimage_recognise(files.files, files.count, files.config.root, form, &naming);
    zn_part_close(&files);
    return status;
}

/* Takes the LoRA over, or closes it. */
static zn_status keep(zn_generator *g, zn_lora *l)
{
    const int all = g->adapter_count + l->count;
    if (!ZN_GROW(g->loras, g->lora_capacity, g->lora_count + 1) || !ZN_GROW(g->adapters, g->adapter_capacity, all)) {
        zn_lora_close(l);
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a LoRA");
    }
    memcpy(g->adapters + g->adapter_count, l->adapters, sizeof *l->adapters * (size_t)l->count);
    g->loras[g->lora_count++] = *l;
    g->adapter_count = all;
    return ZN_OK;
}

static zn_status add(zn_generator *g, const char *path, double strength)
{
    zn_zimage_form form;
    zn_lora l;
    ZN_TRY(read_form(g, &form));
    ZN_TRY(zn_lora_open(path, strength, &form, &l));
    return keep(g, &l);
}

zn_status zn_generator_add_lora(zn_generator *g, const char *path, double strength)
{
    if (!isfinite(strength) || fabs(strength) > 100)
        return ZN_FAIL(ZN_EINVALID, "%s: a strength of %g: it must be from -100 to 100", path, strength);
    pthread_mutex_lock(&g->lock);
    const zn_status status = add(g, path, strength);
    pthread_mutex_unlock(&g->lock);
    return status;
}

void zn_generator_lora_layers(const zn_generator *g, int index, int *layers, int *fitting)
{
    *layers = g->loras[index].layers;
    *fitting = g->loras[index].fitting;
}

void zn_generator_close_loras(zn_generator *g)
{
    for (int i = 0; i < g->lora_count; i++)
        zn_lora_close(&g->loras[i]);
    zn_free(g->loras);
    zn_free(g->adapters);
}
