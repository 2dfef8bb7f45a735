/* The real vocabulary, where it is at hand. */
#include "real.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "../skip.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "text/tokenizer.h"

static zn_tokenizer *real_tokenizer(void)
{
    const char *shared = getenv("ZENITH_SHARED");
    char archive[2048], command[4096];
    snprintf(archive, sizeof archive, "%s/data/qwen/tokenizer.json.gz", shared && *shared ? shared : SHARED);
    skip_without_data(archive);
    snprintf(command, sizeof command, "gzip -dc '%s'", archive);
    FILE *pipe = popen(command, "r");
    enum { LIMIT = 16 << 20 };
    char *json = malloc(LIMIT);
    const size_t size = pipe ? fread(json, 1, LIMIT, pipe) : 0;
    zn_tokenizer *t = NULL;
    if (pipe)
        pclose(pipe);
    if (zn_tokenizer_read(json, size, "tokenizer.json", &t) != ZN_OK)
        fail_msg("%s", zn_error_text());
    free(json);
    return t;
}

static int compare_ids(const char *what, const zn_tokens *got, const zn_json_node *ids)
{
    size_t n = 0;
    int same = ids && got->count == ids->length;
    ZN_JSON_EACH(id, ids)
    {
        int64_t want;
        same = same && zn_json_i64(id, &want) && got->ids[n++] == want;
    }
    if (!same)
        print_error("'%s': %zu tokens differ from the %u expected\n", what, got->count, ids ? ids->length : 0);
    return !same;
}

void golden_strings(void **state)
{
    (void)state;
    zn_tokenizer *t = real_tokenizer();
    zn_map map;
    zn_json doc;
    int wrong = 0, count = 0;
    assert_int_equal(zn_map_open(&map, GOLDEN "/qwen_tokens.json"), ZN_OK);
    assert_int_equal(zn_json_parse(&doc, map.bytes, map.size, "qwen_tokens.json"), ZN_OK);
    ZN_JSON_EACH(c, zn_json_get(doc.root, "cases"))
    {
        const zn_json_node *text = zn_json_get(c, "text");
        zn_tokens out = { 0 };
        assert_int_equal(zn_tokenizer_encode(t, text->value.text, text->length, &out), ZN_OK);
        wrong += compare_ids(text->value.text, &out, zn_json_get(c, "ids"));
        zn_free(out.ids);
        count++;
    }
    ZN_JSON_EACH(c, zn_json_get(doc.root, "chat"))
    {
        const zn_json_node *prompt = zn_json_get(c, "prompt");
        zn_tokens out = { 0 }, all = { 0 };
        int64_t length = 0;
        assert_int_equal(zn_tokenizer_chat(t, prompt->value.text, prompt->length, 512, &out), ZN_OK);
        assert_int_equal(zn_tokenizer_chat(t, prompt->value.text, prompt->length, SIZE_MAX, &all), ZN_OK);
        wrong += compare_ids(prompt->value.text, &out, zn_json_get(c, "ids"));
        assert_true(zn_json_i64(zn_json_get(c, "length"), &length));
        assert_int_equal(all.count, length);
        zn_free(out.ids);
        zn_free(all.ids);
        count++;
    }
    print_message("%d strings\n", count);
    assert_int_equal(wrong, 0);
    assert_true(count > 150);
    zn_json_free(&doc);
    zn_map_close(&map);
    zn_tokenizer_free(t);
}
