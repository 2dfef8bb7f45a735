/* The list of architectures. */
#include "models/arch.h"

#include <assert.h>
#include <string.h>

/* clang-format off */
/* One line for each architecture. Files are offered to them in this order. */
#define ARCHITECTURES(use) \
    use(taesd)             \
    use(zenith_f2)         \
    use(zenith_r)          \
    use(zenith_taesd)      \
    use(zenith_prune)      \
    use(zenith_restore)    \
    use(diffae)            \
    use(flux)              \
    use(wan)               \
    use(taehv)             \
    use(wan2d)             \
    use(lpips)             \
    use(efficientnet)      \
    use(zimage)            \
    /* the end */

#define DECLARE(name) extern const zn_arch zn_arch_##name;
ARCHITECTURES(DECLARE)

#define ENTRY(name) &zn_arch_##name,
const zn_arch *const zn_archs[] = { ARCHITECTURES(ENTRY) NULL };
/* clang-format on */

void *zn_form_own(zn_config *k, size_t size)
{
    assert(size <= ZN_FORM_BYTES);
    if (!k->has_form && k->preset_form)
        memcpy(k->form, k->preset_form, size);
    k->has_form = true;
    return k->form;
}

zn_status zn_arch_resize(const zn_arch *arch, zn_config *k, const zn_wishes *want)
{
    if (k->made_width) /* gates for rows and columns: made for the crops */
        k->made_width = k->made_height = want->size;
    if (arch->resize)
        return arch->resize(k, want);
    k->width = want->width ? want->width : k->width;
    k->latent = want->latent ? want->latent : k->latent;
    return ZN_OK;
}

static bool named(const zn_config *k, const char *name)
{
    if (strcmp(k->name, name) == 0)
        return true;
    const size_t n = strlen(name);
    for (const char *p = k->aliases; n && (p = strstr(p, name)); p += n)
        if ((p == k->aliases || p[-1] == ' ') && (p[n] == 0 || p[n] == ' '))
            return true;
    return false;
}

const zn_arch *zn_arch_find(const char *name, const zn_config **config)
{
    for (int i = 0; zn_archs[i]; i++)
        for (const zn_config *k = zn_archs[i]->configs; k->name; k++)
            if (named(k, name)) {
                *config = k;
                return zn_archs[i];
            }
    return NULL;
}

int zn_architecture_count(void)
{
    int count = 0;
    for (int i = 0; zn_archs[i]; i++)
        for (const zn_config *k = zn_archs[i]->configs; k->name; k++)
            count++;
    return count;
}

const char *zn_architecture_at(int index, const char **description)
{
    for (int i = 0; zn_archs[i]; i++)
        for (const zn_config *k = zn_archs[i]->configs; k->name; k++)
            if (index-- == 0) {
                if (description)
                    *description = k->description;
                return k->name;
            }
    return NULL;
}

bool zn_find_parts(const zn_weights *w, bool (*read)(const zn_weights *w, zn_part part, zn_config *k),
                   zn_config part[2], zn_naming naming[ZN_PARTS])
{
    memset(naming, 0, sizeof *naming * ZN_PARTS);
    for (int p = ZN_ENCODER; p <= ZN_DECODER; p++)
        naming[p].present = read(w, (zn_part)p, &part[p]);
    return naming[ZN_ENCODER].present || naming[ZN_DECODER].present;
}
