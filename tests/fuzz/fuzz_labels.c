/* The reader of labels: what it accepts has a name for every attribute, and finds every picture that it lists. */
#include "train/data/labels.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zn_labels *l;
    if (zn_labels_parse((const char *)data, size, "fuzz", &l) != ZN_OK)
        return 0;
    for (int i = 0; i < l->count; i++)
        if (!l->names[i][0])
            abort();
    for (int64_t i = 0; i < l->pictures; i++)
        for (int k = 0; k < l->count; k++) {
            const uint8_t has = l->list[i].has[k];
            if (zn_labels_of(l, l->list[i].file)[k] != has || (has > 1 && has != ZN_LABEL_UNKNOWN))
                abort();
        }
    zn_labels_free(l);
    return 0;
}
