/* The small tokenizer as JSON, right or wrong. */
#include "small.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 15 };

/* The symbol of a byte as JSON. */
static int put_symbol(char *out, int byte)
{
    static int others; /* of the 68, counted from byte 0 */
    if (byte == 0)
        others = 0;
    if (byte == '"' || byte == '\\')
        return sprintf(out, "\\%c", byte);
    if (byte >= 33 && byte <= 126)
        return sprintf(out, "%c", byte);
    if (byte < 161 || byte == 173)
        return sprintf(out, "\\u%04x", 0x100 + others++);
    return sprintf(out, "\\u%04x", (unsigned)byte);
}

char *small_vocabulary_text(void)
{
    char *text = malloc(ROOM), *at = text;
    at += sprintf(at, "{");
    for (int i = 0; i < 256; i++) {
        at += sprintf(at, "\"");
        at += put_symbol(at, i);
        at += sprintf(at, "\":%d,", i);
    }
    sprintf(at, "\"ab\":300,\"bc\":301,\"abc\":302,\"\\u0120a\":303}");
    return text;
}

static const char rules[] =
    "\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|"
    "\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},"
    "\"behavior\":\"Isolated\",\"invert\":false},"
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]},";

char *small_tokenizer(const char *from, const char *to)
{
    char *vocab = small_vocabulary_text(), *text = malloc(2 * ROOM);
    sprintf(text,
            "{\"added_tokens\":[{\"id\":400,\"content\":\"<x>\",\"lstrip\":false},{\"id\":401,\"content\":\"<x>y\"}],"
            "%s\"model\":{\"type\":\"BPE\",\"vocab\":%s,\"merges\":[[\"a\",\"b\"],\"b c\",[\"ab\",\"c\"]]}}",
            rules, vocab);
    free(vocab);
    char *place = from ? strstr(text, from) : NULL;
    if (place) {
        memmove(place + strlen(to), place + strlen(from), strlen(place + strlen(from)) + 1);
        memcpy(place, to, strlen(to));
    }
    return text;
}

const small_lie small_lies[] = {
    { "\"BPE\"", "\"Unigram\"", ZN_EUNSUPPORTED, "model" },
    { "\"BPE\"", "\"BPE\",\"ignore_merges\":true", ZN_EUNSUPPORTED, "model" },
    { "\"NFC\"", "\"NFKC\"", ZN_EUNSUPPORTED, "normalizer" },
    { "\"Sequence\"", "\"Digits\"", ZN_EUNSUPPORTED, "pre-tokenizer" },
    { "\\\\p{N}|", "\\\\p{N}{1,3}|", ZN_EUNSUPPORTED, "pre-tokenizer" },
    { "\"invert\":false", "\"invert\":true", ZN_EUNSUPPORTED, "pre-tokenizer" },
    { "\"use_regex\":false", "\"use_regex\":true", ZN_EUNSUPPORTED, "pre-tokenizer" },
    { "\"ByteLevel\"", "\"Metaspace\"", ZN_EUNSUPPORTED, "pre-tokenizer" },
    { "\"merges\":[", "\"merges\":{\"x\":[", ZN_EFORMAT, "byte" },
    { "\"merges\"", "\"merge\"", ZN_EFORMAT, "merges are not an array" },
    { "\"vocab\"", "\"vocabulary\"", ZN_EFORMAT, "vocabulary is not an object" },
    { ":300", ":-1", ZN_EFORMAT, "id of token 'ab'" },
    { ":300", ":1.5", ZN_EFORMAT, "id of token 'ab'" },
    { ":300", ":4294967296", ZN_EFORMAT, "id of token 'ab'" },
    { ":300", ":\"300\"", ZN_EFORMAT, "id of token 'ab'" },
    { "\"ab\":", "\"\":", ZN_EFORMAT, "does not stand for" },
    { "\"ab\":", "\"a b\":", ZN_EFORMAT, "does not stand for" },
    { "\"ab\":", "\"\\u4e2d\":", ZN_EFORMAT, "does not stand for" },
    { "\"ab\":", "\"bc\":", ZN_EFORMAT, "alike" },
    { "\"A\":", "\"xx\":", ZN_EFORMAT, "byte 65 alone" },
    { "\"b c\"", "\"bc\"", ZN_EFORMAT, "merge 1 is not of two" },
    { "\"b c\"", "\"b  c\"", ZN_EFORMAT, "merge 1 is of tokens" },
    { "\"b c\"", "\"b d\"", ZN_EFORMAT, "merge 1 is of tokens" },
    { "\"b c\"", "\"a b\"", ZN_EFORMAT, "merges" },
    { "\"b c\"", "[\"b\"]", ZN_EFORMAT, "merge 1 is not of two" },
    { "\"b c\"", "[\"b\",7]", ZN_EFORMAT, "merge 1 is not of two" },
    { "\"b c\"", "null", ZN_EFORMAT, "merge 1 is not of two" },
    { "\"<x>\"", "\"\"", ZN_EFORMAT, "added token 0" },
    { "\"id\":401", "\"id\":-5", ZN_EFORMAT, "added token 1" },
    { "\"id\":401,", "", ZN_EFORMAT, "added token 1" },
    { "\"lstrip\":false", "\"lstrip\":true", ZN_EUNSUPPORTED, "'<x>'" },
    { "{\"added_tokens\"", "[\"added_tokens\"", ZN_EFORMAT, "byte" },
    { 0 },
};
