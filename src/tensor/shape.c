/* Formats shapes for messages. */
#include "tensor/shape.h"

#include <stdio.h>

char *zn_shape_text(zn_shape s, char *text, int size)
{
    int used = snprintf(text, (size_t)size, s.rank ? "" : "scalar");
    for (int i = 0; i < s.rank && used < size; i++)
        used += snprintf(text + used, (size_t)(size - used), "%s%lld", i ? "x" : "", (long long)s.dim[i]);
    return text;
}
