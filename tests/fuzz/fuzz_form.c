/* Bodies of requests: JSON, multipart/form-data, base64. The first byte chooses. */
#include "server/base64.h"
#include "server/form.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_base64(const uint8_t *data, size_t size)
{
    char *text = sv_base64_encode(data, size);
    if (!text || sv_base64_decode(text, strlen(text)) != (long long)size || memcmp(text, data, size))
        abort();
    free(text);
}

/* The bytes are copied, so that reading beyond them is found. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const types[] = { "application/json", "multipart/form-data; boundary=m",
                                         "multipart/form-data; boundary=\"--x\"" };
    sv_form form;
    if (!size)
        return 0;
    check_base64(data + 1, size - 1);
    char *body = malloc(size);
    memcpy(body, data + 1, size - 1);
    body[size - 1] = 0;
    if (sv_form_parse(types[data[0] % 3], body, size - 1, &form) == ZN_OK)
        for (int i = 0; i < form.count; i++) {
            const sv_field *f = &form.fields[i];
            if (!f->name[0] && f->option == 0 && f->binary)
                abort(); /* a part has a name */
            if (f->bytes[f->size] || (f->filename && strpbrk(f->filename, "/\\")))
                abort();
            if (sv_field_decode(&form.fields[i]) == ZN_OK && form.fields[i].bytes[form.fields[i].size])
                abort();
        }
    sv_form_free(&form);
    free(body);
    return 0;
}
