/* The metadata of packed GGUF files: what the network is, and for Qwen3 its sizes and its tokenizer, under the keys of
 * llama.cpp. */
#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "pipeline/convert/pack.h"

#include <stdio.h>
#include <string.h>

/* Numbers of llama.cpp's file types, for programs that show them. */
static uint32_t file_type(zn_dtype dtype)
{
    switch (dtype) {
    case ZN_F32:
        return 0;
    case ZN_F16:
        return 1;
    case ZN_Q4_0:
        return 2;
    case ZN_Q8_0:
        return 7;
    case ZN_Q4_K:
        return 14;
    case ZN_Q5_K:
        return 16;
    case ZN_Q6_K:
        return 18;
    default:
        return 32; /* BF16 */
    }
}

static void put_sizes(zn_gguf_keys *keys, const zn_qwen3_form *k)
{
    zn_gguf_key_u32(keys, "qwen3.block_count", (uint32_t)k->layers);
    zn_gguf_key_u32(keys, "qwen3.context_length", 40960);
    zn_gguf_key_u32(keys, "qwen3.embedding_length", (uint32_t)k->hidden);
    zn_gguf_key_u32(keys, "qwen3.feed_forward_length", (uint32_t)k->inner);
    zn_gguf_key_u32(keys, "qwen3.attention.head_count", (uint32_t)k->heads);
    zn_gguf_key_u32(keys, "qwen3.attention.head_count_kv", (uint32_t)k->groups);
    zn_gguf_key_u32(keys, "qwen3.attention.key_length", (uint32_t)k->head);
    zn_gguf_key_u32(keys, "qwen3.attention.value_length", (uint32_t)k->head);
    zn_gguf_key_f32(keys, "qwen3.attention.layer_norm_rms_epsilon", k->eps);
    zn_gguf_key_f32(keys, "qwen3.rope.freq_base", (float)k->theta);
}

/* ---- the tokenizer: from tokenizer.json to lists ---- */

enum { NORMAL = 1, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, MAX_TOKENS = 1 << 22 };

typedef struct token {
    const char *text; /* NULL: there is none with this number */
    size_t size;
    int32_t type;
} token;

static zn_status set_token(token *list, int64_t count, const zn_json_node *text, const zn_json_node *number,
                           int32_t type, const char *path)
{
    int64_t id;
    if (!text || text->kind != ZN_JSON_STRING || !zn_json_i64(number, &id) || id < 0 || id >= count)
        return ZN_FAIL(ZN_EFORMAT, "%s: a token has no text or no number below %lld", path, (long long)count);
    list[id] = (token){ text->value.text, text->length, type };
    return ZN_OK;
}

static zn_status fill_tokens(token *list, int64_t count, const zn_json_node *root, const char *path)
{
    ZN_JSON_EACH(key, zn_json_get(zn_json_get(root, "model"), "vocab"))
    {
        ZN_TRY(set_token(list, count, key, key + 1, NORMAL, path));
    }
    ZN_JSON_EACH(t, zn_json_get(root, "added_tokens"))
    {
        const zn_json_node *special = zn_json_get(t, "special");
        const bool control = special && special->kind == ZN_JSON_BOOL && special->value.magnitude;
        ZN_TRY(set_token(list, count, zn_json_get(t, "content"), zn_json_get(t, "id"), control ? CONTROL : USER_DEFINED,
                         path));
    }
    return ZN_OK;
}

/* One more than the largest number of a token, and at least `least`. */
static int64_t count_tokens(const zn_json_node *root, int64_t least)
{
    int64_t id, count = least;
    ZN_JSON_EACH(key, zn_json_get(zn_json_get(root, "model"), "vocab"))
    {
        if (zn_json_i64(key + 1, &id) && id >= count && id < MAX_TOKENS)
            count = id + 1;
    }
    ZN_JSON_EACH(t, zn_json_get(root, "added_tokens"))
    {
        if (zn_json_i64(zn_json_get(t, "id"), &id) && id >= count && id < MAX_TOKENS)
            count = id + 1;
    }
    return count;
}

static void put_tokens(zn_gguf_keys *keys, const token *list, int64_t count)
{
    char none[32];
    zn_gguf_key_array(keys, "tokenizer.ggml.tokens", ZN_GGUF_STRING, (uint64_t)count);
    for (int64_t i = 0; i < count; i++) {
        snprintf(none, sizeof none, "[PAD%lld]", (long long)i);
        zn_gguf_string(keys, list[i].text ? list[i].text : none, list[i].text ? list[i].size : strlen(none));
    }
    zn_gguf_key_array(keys, "tokenizer.ggml.token_type", ZN_GGUF_I32, (uint64_t)count);
    for (int64_t i = 0; i < count; i++) {
        const int32_t type = list[i].text ? list[i].type : UNUSED;
        zn_json_out_raw(&keys->bytes, (const char *)&type, sizeof type);
    }
}

/* Older files have a merge as one string, newer ones as two. */
static zn_status put_merges(zn_gguf_keys *keys, const zn_json_node *merges, const char *path)
{
    zn_gguf_key_array(keys, "tokenizer.ggml.merges", ZN_GGUF_STRING, merges ? merges->length : 0);
    ZN_JSON_EACH(m, merges)
    {
        char text[4096];
        if (m->kind == ZN_JSON_STRING) {
            zn_gguf_string(keys, m->value.text, m->length);
            continue;
        }
        const bool two = m->kind == ZN_JSON_ARRAY && m->length == 2 && zn_json_string(m + 1) && zn_json_string(m + 2);
        const int length = two ? snprintf(text, sizeof text, "%s %s", m[1].value.text, m[2].value.text) : -1;
        if (length < 0 || length >= (int)sizeof text)
            return ZN_FAIL(ZN_EFORMAT, "%s: a merge is not of two tokens", path);
        zn_gguf_string(keys, text, (size_t)length);
    }
    return ZN_OK;
}

/* The number of an added token, if there is one. */
static void put_special(zn_gguf_keys *keys, const zn_json_node *root, const char *key, const char *text)
{
    int64_t id;
    ZN_JSON_EACH(t, zn_json_get(root, "added_tokens"))
    {
        const char *content = zn_json_string(zn_json_get(t, "content"));
        if (content && strcmp(content, text) == 0 && zn_json_i64(zn_json_get(t, "id"), &id))
            zn_gguf_key_u32(keys, key, (uint32_t)id);
    }
}

static zn_status put_tokenizer(zn_gguf_keys *keys, const zn_json_node *root, int64_t rows, const char *path)
{
    const int64_t count = count_tokens(root, rows);
    token *list = zn_calloc((size_t)count, sizeof *list);
    if (!list)
        return ZN_FAIL(ZN_ENOMEM, "out of memory: tokens of %s", path);
    zn_gguf_key_text(keys, "tokenizer.ggml.model", "gpt2");
    zn_gguf_key_text(keys, "tokenizer.ggml.pre", "qwen2");
    zn_status status = fill_tokens(list, count, root, path);
    put_tokens(keys, list, count);
    zn_free(list);
    if (status == ZN_OK)
        status = put_merges(keys, zn_json_get(zn_json_get(root, "model"), "merges"), path);
    put_special(keys, root, "tokenizer.ggml.bos_token_id", "<|endoftext|>");
    put_special(keys, root, "tokenizer.ggml.eos_token_id", "<|im_end|>");
    put_special(keys, root, "tokenizer.ggml.padding_token_id", "<|endoftext|>");
    zn_gguf_key_bool(keys, "tokenizer.ggml.add_bos_token", false);
    return status;
}

static zn_status read_tokenizer(zn_gguf_keys *keys, const char *path, int64_t rows)
{
    zn_map map;
    zn_json doc;
    zn_tokenizer *check; /* its rules must be Qwen's: the new file claims it */
    ZN_TRY(zn_tokenizer_open(path, &check));
    zn_tokenizer_free(check);
    ZN_TRY(zn_map_open(&map, path));
    zn_status status = zn_json_parse(&doc, map.bytes, map.size, path);
    zn_map_close(&map);
    if (status == ZN_OK)
        status = put_tokenizer(keys, doc.root, rows, path);
    if (status == ZN_OK)
        zn_json_free(&doc);
    return status;
}

/* Beside the weights, or in the folder "tokenizer" beside theirs. A network without one is packed all the same. */
static zn_status find_tokenizer(zn_gguf_keys *keys, const char *in, int64_t rows)
{
    static const char *const places[] = { "tokenizer.json", "tokenizer/tokenizer.json", "../tokenizer/tokenizer.json",
                                          "../tokenizer.json" };
    const char *slash = zn_is_folder(in) ? NULL : strrchr(in, '/');
    const char *folder = slash || zn_is_folder(in) ? in : ".";
    char path[4096];
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const int length = slash ? (int)(slash - in) : (int)strlen(folder);
        if (snprintf(path, sizeof path, "%.*s/%s", length, folder, places[i]) < (int)sizeof path && zn_exists(path))
            return read_tokenizer(keys, path, rows);
    }
    return ZN_OK;
}

/* ---- all keys ---- */

static bool is_own(const char *key)
{
    static const char *const own[] = { "general.alignment", "general.file_type", "general.quantization_version",
                                       "general.architecture" };
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(key, own[i]) == 0)
            return true;
    return false;
}

zn_status zn_pack_keys(const zn_pack_plan *plan, const char *in, zn_dtype dtype, zn_gguf_keys *keys)
{
    const zn_weights *first = plan->files.files[0];
    const bool text = strcmp(plan->architecture, "qwen3") == 0;
    zn_gguf_key_text(keys, "general.architecture", plan->architecture);
    zn_gguf_key_u32(keys, "general.quantization_version", 2);
    zn_gguf_key_u32(keys, "general.file_type", file_type(dtype));
    for (int64_t i = 0; i < first->value_count; i++)
        if (!is_own(first->values[i].key))
            zn_gguf_key_copy(keys, &first->values[i]);
    if (!text || first->value_count)
        return ZN_OK;
    put_sizes(keys, &plan->text);
    return find_tokenizer(keys, in, plan->text.vocabulary);
}
