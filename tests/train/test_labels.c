/* Labels are read in both of their forms, and what is wrong with them is said in one sentence. */
#include "base/alloc.h"
#include "train/data/captions.h"
#include "train/data/labels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static zn_labels *read_good(const char *text)
{
    zn_labels *l;
    if (zn_labels_parse(text, strlen(text), "labels", &l) != ZN_OK)
        fail_msg("'%s': %s", text, zn_error_text());
    return l;
}

/* Two attributes, Bald and Smiling; a.jpg smiles, sub/b.jpg is bald. */
static void expect_two(const char *text)
{
    zn_labels *l = read_good(text);
    assert_int_equal(l->count, 2);
    assert_int_equal(l->pictures, 2);
    assert_string_equal(l->names[0], "Bald");
    assert_string_equal(l->names[1], "Smiling");
    assert_memory_equal(zn_labels_of(l, "a.jpg"), "\0\1", 2);
    assert_memory_equal(zn_labels_of(l, "sub/b.jpg"), "\1\0", 2);
    assert_memory_equal(zn_labels_of(l, "sub/b.jpg#12"), "\1\0", 2); /* a crop of it */
    assert_null(zn_labels_of(l, "b.jpg"));
    assert_null(zn_labels_of(l, "c.jpg#1"));
    zn_labels_free(l);
}

static void all_forms_are_read(void **state)
{
    (void)state;
    expect_two("2\nBald Smiling\na.jpg -1  1\nsub/b.jpg  1 -1\n");
    expect_two("Bald Smiling \r\nsub/b.jpg 1 -1\r\n\r\n a.jpg\t-1 1 ");
    expect_two("file Bald Smiling\nsub/b.jpg 1 -1\na.jpg 0 1\n");
    expect_two("image_id,Bald,Smiling\nsub/b.jpg,1,0\na.jpg,0,1\n");
    expect_two("\xef\xbb\xbfimage_id,Bald, Smiling\nsub/b.jpg, 1 ,-1\na.jpg ,-1,1");
    expect_two("Bald,Smiling\nsub/b.jpg,1,0\na.jpg,0,1\n");
    zn_labels *l = read_good("file,Is smiling\nmy photo.jpg,1\n");
    assert_string_equal(l->names[0], "Is smiling");
    assert_int_equal(zn_labels_of(l, "my photo.jpg")[0], 1);
    zn_labels_free(l);
}

static void unknown_attributes_are_marked(void **state)
{
    (void)state;
    static const uint8_t expected[] = { ZN_LABEL_UNKNOWN, 1, ZN_LABEL_UNKNOWN };
    zn_labels *l = read_good("file,Bald,Smiling,Young\na.jpg,,1,\nb.jpg,0,?,1\n");
    assert_memory_equal(zn_labels_of(l, "a.jpg"), expected, 3);
    assert_int_equal(zn_labels_of(l, "b.jpg")[1], ZN_LABEL_UNKNOWN);
    zn_labels_free(l);
    l = read_good("Bald Smiling\na.jpg ? 1\n");
    assert_int_equal(zn_labels_of(l, "a.jpg")[0], ZN_LABEL_UNKNOWN);
    zn_labels_free(l);
}

/* Records of the original's LMDB folders have the labels of CelebA-HQ. */
static void records_have_labels_of_files(void **state)
{
    (void)state;
    zn_labels *l = read_good("1\nBald\n42.jpg 1\n7.jpg -1\n");
    assert_int_equal(zn_labels_of(l, "256-00042")[0], 1);
    assert_int_equal(zn_labels_of(l, "128-00007")[0], 0);
    assert_null(zn_labels_of(l, "256-00043"));
    assert_null(zn_labels_of(l, "256-42x"));
    assert_null(zn_labels_of(l, "None-00042"));
    zn_labels_free(l);
}

static void mistakes_are_said(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } bad[] = {
        { "", "no names of attributes" },
        { "12\n", "no names of attributes" },
        { "Bald Smiling\n", "no images are named" },
        { "Bald Smiling\na.jpg 1 1\nb.jpg 1\n", "labels line 3: 1 values for 2 attributes" },
        { "Bald Smiling\na.jpg 1 1 1\n", "4 words, but 2 names ask for 3, or 2" },
        { "Bald Smiling\na.jpg 1 yes\n", "labels line 2: Smiling is 'yes', not 1, -1, 0 or ?" },
        { "f,Bald,Smiling\na.jpg,1,10\n", "Smiling is '10'" },
        { "f,Bald,Bald\na.jpg,1,1\n", "attribute 'Bald' appears twice" },
        { "f,Bald,\na.jpg,1,1\n", "attribute 2 has no name" },
        { "Bald\na.jpg\n", "without attributes" },
        { "Bald\na.jpg 1\na.jpg 0\n", "'a.jpg' appears twice" },
    };
    zn_labels *l;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(zn_labels_parse(bad[i].text, strlen(bad[i].text), "labels", &l), ZN_EFORMAT);
        assert_null(l);
        if (!strstr(zn_error_text(), bad[i].words))
            fail_msg("'%s' does not say '%s'", zn_error_text(), bad[i].words);
    }
    assert_int_equal(zn_labels_parse("a\0b", 3, "labels", &l), ZN_EFORMAT);
    assert_non_null(strstr(zn_error_text(), "not a text"));
    assert_int_equal(zn_labels_read("/nowhere/labels.csv", &l), ZN_ENOTFOUND);
}

/* As many as there may be, and one more. */
static void attributes_are_limited(void **state)
{
    (void)state;
    static char text[1 << 14];
    zn_labels *l;
    for (int count = 1024; count <= 1025; count++) {
        size_t at = 0;
        for (int i = 0; i < count; i++)
            at += (size_t)snprintf(text + at, sizeof text - at, "n%d ", i);
        at += (size_t)snprintf(text + at, sizeof text - at, "\nx");
        for (int i = 0; i < count; i++)
            at += (size_t)snprintf(text + at, sizeof text - at, " %d", i % 2);
        assert_int_equal(zn_labels_parse(text, at, "labels", &l), count == 1024 ? ZN_OK : ZN_ELIMIT);
        zn_labels_free(l);
    }
}

static void captions_are_read(void **state)
{
    (void)state;
    static const char *const good[] = {
        "file,caption\na.png,a cat\n",
        ("\xef\xbb\xbf"
         "file,caption\r\na.png,a cat\r\n"),
        "\"file\" ,\"caption\"\t\r\n\"a.png\" ,\"a cat\" \r\n",
        "caption,file\n\"a cat\"  ,a.png",
    };
    static const struct {
        const char *text, *words;
    } bad[] = {
        { "file,caption\n\"a.png\" x,a cat\n", "c.csv, line 2: text follows a closing quote" },
        { "file,caption\na.png,a cat\nb.png,\"a \"red\" cat\"\n", "c.csv, line 3: text follows a closing quote" },
        { "\"file\"x,caption\na.png,a cat\n", "c.csv, line 1: text follows a closing quote" },
        { "file,caption\na.png,\"a cat\n", "c.csv, line 2: a quote is not closed" },
    };
    zn_captions *c;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (zn_captions_parse(good[i], strlen(good[i]), "c.csv", &c) != ZN_OK)
            fail_msg("'%s': %s", good[i], zn_error_text());
        assert_string_equal(zn_captions_of(c, "a.png"), "a cat");
        zn_captions_free(c);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(zn_captions_parse(bad[i].text, strlen(bad[i].text), "c.csv", &c), ZN_EFORMAT);
        if (!strstr(zn_error_text(), bad[i].words))
            fail_msg("'%s' does not say '%s'", zn_error_text(), bad[i].words);
    }
}

static void memory_may_run_out(void **state)
{
    (void)state;
    static const char text[] = "Bald Smiling\na.jpg -1  1\nsub/b.jpg  1 -1\n";
    zn_status status = ZN_ENOMEM;
    int tried = 0;
    for (int64_t nth = 1; status != ZN_OK; nth++, tried++) {
        zn_labels *l;
        zn_alloc_fail_at(nth);
        status = zn_labels_parse(text, sizeof text - 1, "labels", &l);
        zn_alloc_fail_at(0);
        assert_true(status == ZN_OK || status == ZN_ENOMEM);
        zn_labels_free(l);
    }
    assert_true(tried > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_forms_are_read),           cmocka_unit_test(unknown_attributes_are_marked),
        cmocka_unit_test(records_have_labels_of_files), cmocka_unit_test(mistakes_are_said),
        cmocka_unit_test(attributes_are_limited),       cmocka_unit_test(captions_are_read),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
