/* Models as bytes, and small ones. */
#include "model_file.h"

#include "base/alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

/* One entry of the header; returns the bytes it takes in the file. */
static size_t describe(const zn_model_parameter *p, size_t at, char *text, size_t size)
{
    const zn_shape s = zn_weight_file_shape(p->shape, p->layout);
    const size_t bytes = 4 * (size_t)zn_shape_count(s);
    size_t used = (size_t)snprintf(text, size, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", at ? "," : "{", p->name,
                                   p->layout == ZN_LAYOUT_INDEX ? "I32" : "F32");
    for (int i = 0; i < s.rank; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? "," : "", (long long)s.dim[i]);
    snprintf(text + used, size - used, "],\"data_offsets\":[%zu,%zu]}", at, at + bytes);
    return bytes;
}

uint8_t *model_bytes(const zn_model *m, size_t *size)
{
    const size_t capacity = 256 * (size_t)(m->count + 1);
    char *header = zn_calloc(1, capacity);
    size_t data = 0, used = 0;
    for (int i = 0; i < m->count; i++) {
        data += describe(&m->parameters[i], data, header + used, capacity - used);
        used += strlen(header + used);
    }
    used += (size_t)snprintf(header + used, capacity - used, "}");
    uint8_t *bytes = zn_calloc(1, 8 + used + data), *to = bytes + 8 + used;
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)((uint64_t)used >> 8 * i);
    memcpy(bytes + 8, header, used);
    for (int i = 0; i < m->count; i++) {
        const zn_model_parameter *p = &m->parameters[i];
        const size_t count = (size_t)zn_shape_count(p->shape);
        float *values = zn_alloc(4 * count);
        zn_weight_export(p->data, p->shape, p->layout, values);
        for (size_t k = 0; k < count && p->layout == ZN_LAYOUT_INDEX; k++) {
            const int32_t index = (int32_t)values[k];
            memcpy(&values[k], &index, sizeof index);
        }
        memcpy(to, values, 4 * count);
        to += 4 * count;
        zn_free(values);
    }
    *size = 8 + used + data;
    zn_free(header);
    return bytes;
}

zn_model *small_model(const char *preset, int width, int side, uint64_t seed)
{
    const zn_config *known;
    const zn_arch *arch = zn_arch_find(preset, &known);
    assert_non_null(arch);
    zn_config k = *known;
    k.width = width;
    k.latent = known->latent == 256 * known->width ? 256 * width : known->latent;
    if (k.made_width)
        k.made_width = k.made_height = side;
    zn_model *m;
    assert_int_equal(zn_model_new(arch, &k, &m), ZN_OK);
    for (int part = 0; part < (arch->decode ? 2 : 1); part++)
        if (zn_model_random_part(m, (zn_part)part, seed) != ZN_OK)
            fail_msg("%s: %s", preset, zn_error_text());
    return m;
}

zn_model_parameter *parameter_of(const zn_model *m, const char *name)
{
    for (int i = 0; i < m->count; i++)
        if (strcmp(m->parameters[i].name, name) == 0)
            return &m->parameters[i];
    fail_msg("no parameter '%s'", name);
    return NULL;
}
