/* Goes through the tables of broken files. */
#include "broken.h"

int broken_at(int i, broken_case *c)
{
    static const broken_case *const tables[] = { broken_safetensors, broken_gguf, broken_pickles, broken_archives };
    for (int t = 0; t < 4; t++)
        for (const broken_case *entry = tables[t]; entry->file; entry++)
            if (i-- == 0) {
                *c = *entry;
                return 1;
            }
    return 0;
}

bytes broken_make(const broken_case *c)
{
    if (c->make)
        return c->make();
    if (c->header)
        return make_safetensors(c->header, c->size);
    return make_checkpoint(c->pickle, c->size, 64);
}
