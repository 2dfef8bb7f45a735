/* Tokenizers: the input as a tokenizer.json file, and as text for a small one. Text that is accepted gives tokens, and
 * not more than its normal form can have bytes. */
#include "../text/small.h"
#include "base/alloc.h"
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void encode(const zn_tokenizer *t, const char *text, size_t size)
{
    zn_tokens out = { 0 };
    const zn_status status = zn_tokenizer_encode(t, text, size, &out);
    if (status == ZN_OK ? out.count > 4 * size || (size && !out.count) : !zn_error_text()[0])
        abort();
    for (size_t i = 0; i < out.count; i++)
        if (out.ids[i] < 0)
            abort();
    zn_free(out.ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char sample[] = "abc <x>'s 12\n\n na\xc3\xafve e\xcc\x81";
    static zn_tokenizer *small;
    zn_tokenizer *t;
    if (!small) {
        char *json = small_tokenizer(NULL, NULL);
        if (zn_tokenizer_read(json, strlen(json), "small", &small) != ZN_OK)
            abort();
        free(json);
    }
    encode(small, (const char *)data, size);
    const zn_status status = zn_tokenizer_read(data, size, "fuzz", &t);
    if ((status == ZN_OK) != (t != NULL))
        abort();
    if (t)
        encode(t, sample, sizeof sample - 1);
    zn_tokenizer_free(t);
    return 0;
}
