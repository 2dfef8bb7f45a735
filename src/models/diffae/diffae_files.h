/* The two halves of DiffAE as an architecture (diffae.c): what files hold of it, as zn_arch describes. */
#ifndef ZN_DIFFAE_FILES_H
#define ZN_DIFFAE_FILES_H

#include "models/arch.h"
#include "models/mamba/mamba_parts.h"

/* As zn_arch has them. k: of this architecture. */
const zn_mamba_form *zn_diffae_mamba(const zn_config *k);
bool zn_diffae_is_masked(const zn_config *k);

extern const zn_config zn_diffae_configs[]; /* both end with a NULL name */
extern const zn_preset zn_diffae_presets[];

zn_status zn_diffae_recognise(const zn_weights *w, zn_config *k, zn_naming naming[ZN_PARTS], bool *is_it);
void zn_diffae_file_name(const char *name, const zn_naming *naming, char *out, size_t size);

#endif
