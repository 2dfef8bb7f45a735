/* The JSON reader: nodes are consistent, and every string that was read is written and read again unchanged. */
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_string(const zn_json_node *n)
{
    const char *text = zn_json_string(n);
    zn_json_out out = { 0 };
    zn_json copy;
    if (n->value.text[n->length] != 0 || !zn_utf8_valid(n->value.text, n->length))
        abort();
    if (!text)
        return;
    zn_json_out_string(&out, text);
    if (out.failed || zn_json_parse(&copy, out.bytes, out.size, "copy") != ZN_OK)
        abort();
    if (strcmp(zn_json_string(copy.root), text) != 0)
        abort();
    zn_json_free(&copy);
    zn_json_out_free(&out);
}

static void check_node(const zn_json_node *n)
{
    double value;
    int64_t integer;
    if (n->kind == ZN_JSON_STRING)
        check_string(n);
    if ((n->kind == ZN_JSON_NUMBER) != zn_json_double(n, &value) || (zn_json_i64(n, &integer) && !n->integer))
        abort();
    uint32_t count = 0;
    ZN_JSON_EACH(child, n)
    {
        check_node(child);
        if (n->kind == ZN_JSON_OBJECT)
            check_node(child + 1);
        count++;
    }
    if ((n->kind == ZN_JSON_ARRAY || n->kind == ZN_JSON_OBJECT) && count != n->length)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zn_json doc;
    if (zn_json_parse(&doc, data, size, "fuzz") != ZN_OK)
        return 0;
    check_node(doc.root);
    zn_json_free(&doc);
    return 0;
}
