/* The JSON reader: what it accepts, what it refuses and where, exact numbers, and the string writer. */
#include "base/alloc.h"
#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static zn_json parsed(const char *text)
{
    zn_json doc;
    if (zn_json_parse(&doc, text, strlen(text), "test") != ZN_OK)
        fail_msg("%s", zn_error_text());
    return doc;
}

static void structure(void **state)
{
    (void)state;
    zn_json doc = parsed(" { \"a\" : [ 1 , [ ] , { \"x\" : null } , true ] , \"b\" : { } , \"a\" : 2, \"\" : false } ");
    assert_int_equal(doc.root->kind, ZN_JSON_OBJECT);
    assert_int_equal(doc.root->length, 4);
    const zn_json_node *a = zn_json_get(doc.root, "a");
    static const zn_json_kind kinds[] = { ZN_JSON_NUMBER, ZN_JSON_ARRAY, ZN_JSON_OBJECT, ZN_JSON_BOOL };
    int n = 0;
    ZN_JSON_EACH(item, a)
    {
        assert_int_equal(item->kind, kinds[n]);
        n++;
    }
    assert_int_equal(n, 4);
    static const char *const keys[] = { "a", "b", "a", "" };
    n = 0;
    ZN_JSON_EACH(key, doc.root)
    {
        assert_string_equal(zn_json_string(key), keys[n]);
        n++;
    }
    assert_int_equal(n, 4);
    assert_int_equal(zn_json_get(doc.root, "b")->length, 0);
    assert_null(zn_json_first(zn_json_get(doc.root, "b")));
    assert_null(zn_json_get(doc.root, "c"));
    assert_null(zn_json_get(a, "x"));
    assert_null(zn_json_get(NULL, "x"));
    assert_null(zn_json_string(a));
    zn_json_free(&doc);
}

static void numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int is_i64, is_u64;
        double value;
    } cases[] = {
        { "0", 1, 1, 0 },
        { "-0", 1, 1, -0.0 },
        { "-1", 1, 0, -1 },
        { "9223372036854775807", 1, 1, 9223372036854775807.0 },
        { "9223372036854775808", 0, 1, 9223372036854775808.0 },
        { "-9223372036854775808", 1, 0, -9223372036854775808.0 },
        { "-9223372036854775809", 0, 0, -9223372036854775809.0 },
        { "18446744073709551615", 0, 1, 18446744073709551615.0 },
        { "18446744073709551616", 0, 0, 18446744073709551616.0 },
        { "0.1", 0, 0, 0.1 },
        { "1.5e3", 0, 0, 1500 },
        { "-2.5E-3", 0, 0, -2.5e-3 },
        { "1e2", 0, 0, 100 },
        { "123456789.123456789e-5", 0, 0, 123456789.123456789e-5 },
        { "2.2250738585072011e-308", 0, 0, 2.2250738585072011e-308 },
        { "1e400", 0, 0, INFINITY },
        { "-1e-400", 0, 0, -0.0 },
        { "1e99999999999999999999", 0, 0, INFINITY },
    };
    setlocale(LC_ALL, "de_DE.UTF-8"); /* where it exists, a comma separates decimals */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zn_json doc = parsed(cases[i].text);
        int64_t s;
        uint64_t u;
        double d;
        assert_int_equal(zn_json_i64(doc.root, &s), cases[i].is_i64);
        assert_int_equal(zn_json_u64(doc.root, &u), cases[i].is_u64);
        assert_true(zn_json_double(doc.root, &d));
        if (d != cases[i].value || signbit(d) != signbit(cases[i].value))
            fail_msg("%s gave %.17g", cases[i].text, d);
        if (cases[i].is_i64)
            assert_int_equal(s, strtoll(cases[i].text, NULL, 10));
        if (cases[i].is_u64)
            assert_true(u == strtoull(cases[i].text, NULL, 10));
        zn_json_free(&doc);
    }
    setlocale(LC_ALL, "C");
}

static void strings(void **state)
{
    (void)state;
    zn_json doc =
        parsed("[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\",\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00\",\"\xc3\xa9\xf0\x9f\x98\x80\","
               "\"a\\u0000b\"]");
    const zn_json_node *s = zn_json_first(doc.root);
    assert_string_equal(zn_json_string(s), "\"\\/\b\f\n\r\t");
    assert_string_equal(zn_json_string(s + 1), "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    assert_string_equal(zn_json_string(s + 2), "\xc3\xa9\xf0\x9f\x98\x80");
    assert_null(zn_json_string(s + 3));
    assert_int_equal(s[3].length, 3);
    assert_memory_equal(s[3].value.text, "a\0b", 4);
    zn_json_free(&doc);
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int at; /* offset in the message */
    } cases[] = {
        { "", 0 },
        { " ", 1 },
        { "[1,]", 3 },
        { "[1 2]", 3 },
        { "{\"a\"}", 4 },
        { "{a:1}", 1 },
        { "{\"a\":1,}", 7 },
        { "[1", 2 },
        { "\"a", 2 },
        { "01", 2 },
        { "-", 1 },
        { "1.", 2 },
        { "1e", 2 },
        { "1e+", 3 },
        { ".5", 0 },
        { "+1", 0 },
        { "nul", 0 },
        { "True", 0 },
        { "1 1", 2 },
        { "NaN", 0 },
        { "\"\\x\"", 2 },
        { "\"\\u12g4\"", 5 },
        { "\"\\u12", 3 },
        { "\"\\udc00\"", 7 },
        { "\"\\ud800x\"", 7 },
        { "\"\\ud800\\u0041\"", 13 },
        { "\"\n\"", 1 },
        { "\"\x80\"", 1 },
        { "\"\xe0\x80\x80\"", 1 },
        { "\"\xed\xa0\x80\"", 1 },
        { "\"\xf4\x90\x80\x80\"", 1 },
        { "\"\xc3", 1 },
        { "[1]]", 3 },
        { "\xef\xbb\xbf{}", 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zn_json doc;
        char where[32];
        assert_int_equal(zn_json_parse(&doc, cases[i].text, strlen(cases[i].text), "test"), ZN_EFORMAT);
        snprintf(where, sizeof where, "at byte %d", cases[i].at);
        if (!strstr(zn_error_text(), where) || strlen(strstr(zn_error_text(), where)) != strlen(where))
            fail_msg("'%s' should fail %s: %s", cases[i].text, where, zn_error_text());
        assert_null(doc.root);
    }
}

static void nesting(void **state)
{
    (void)state;
    char text[256];
    for (int depth = 63; depth <= 66; depth++) {
        zn_json doc;
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        assert_int_equal(zn_json_parse(&doc, text, (size_t)depth * 2, "test") == ZN_OK, depth <= 64);
        zn_json_free(&doc);
    }
}

static void memory_failures(void **state)
{
    (void)state;
    zn_json doc;
    for (int n = 1; n <= 2; n++) {
        zn_alloc_fail_at(n);
        assert_int_equal(zn_json_parse(&doc, "[1]", 3, "test"), ZN_ENOMEM);
        zn_alloc_fail_at(0);
    }
}

static void writing(void **state)
{
    (void)state;
    char all[128] = { 0 };
    for (int i = 1; i < 128; i++)
        all[i - 1] = (char)i;
    zn_json_out out = { 0 };
    zn_json_out_format(&out, "[%d,", 5);
    zn_json_out_string(&out, all);
    zn_json_out_raw(&out, ",", 1);
    zn_json_out_string(&out, "\xc3\xa9 \xff\xc3");
    zn_json_out_raw(&out, "]", 1);
    assert_false(out.failed);
    zn_json doc;
    assert_int_equal(zn_json_parse(&doc, out.bytes, out.size, "own"), ZN_OK);
    assert_string_equal(zn_json_string(doc.root + 2), all);
    assert_string_equal(zn_json_string(doc.root + 3), "\xc3\xa9 \xef\xbf\xbd\xef\xbf\xbd");
    zn_json_free(&doc);
    zn_json_out_free(&out);
    zn_alloc_fail_at(1);
    zn_json_out_string(&out, "x");
    zn_alloc_fail_at(0);
    assert_true(out.failed);
    zn_json_out_string(&out, "x");
    zn_json_out_free(&out);
}

static void values_are_written_as_they_were(void **state)
{
    (void)state;
    static const char text[] =
        "{\"a\":[],\"b\":[1,-2,0.5,-1e999,18446744073709551615],\"c\":{\"d\":null,\"e\\\"\":true},"
        "\"f\":false,\"g\":{}}";
    zn_json doc;
    zn_json_out out = { 0 };
    assert_int_equal(zn_json_parse(&doc, text, strlen(text), "own"), ZN_OK);
    zn_json_out_node(&out, doc.root);
    assert_int_equal(out.size, strlen(text));
    assert_memory_equal(out.bytes, text, out.size);
    zn_json_free(&doc);
    zn_json_out_free(&out);
}

/* In a program that speaks German. Where no such locale can be had there is nothing to see. */
static void numbers_are_written_with_a_point(void **state)
{
    (void)state;
    char folder[] = "/tmp/zenith-locale-XXXXXX", command[128], text[16];
    assert_non_null(mkdtemp(folder));
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1", folder);
    const int made = system(command) == 0;
    setenv("LOCPATH", folder, 1);
    if (made && setlocale(LC_ALL, "de_DE.UTF-8")) {
        zn_json doc = parsed("[0.25]");
        zn_json_out out = { 0 };
        zn_json_out_node(&out, doc.root);
        zn_json_out_format(&out, " %.1f", 1.5);
        assert_int_equal(out.size, strlen("[0.25] 1.5"));
        assert_memory_equal(out.bytes, "[0.25] 1.5", out.size);
        snprintf(text, sizeof text, "%.1f", 0.5); /* the program's own numbers stay as they were */
        assert_string_equal(text, "0,5");
        zn_json_out_free(&out);
        zn_json_free(&doc);
        setlocale(LC_ALL, "C");
    }
    unsetenv("LOCPATH");
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structure),
        cmocka_unit_test(numbers),
        cmocka_unit_test(strings),
        cmocka_unit_test(refused),
        cmocka_unit_test(nesting),
        cmocka_unit_test(memory_failures),
        cmocka_unit_test(writing),
        cmocka_unit_test(values_are_written_as_they_were),
        cmocka_unit_test(numbers_are_written_with_a_point),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
