/* Damaged data sets: whatever is wrong inside, opening one ends in success or one sentence that names the file, and of
 * those that open every record is found. Built with sanitizers this is the proof that nothing is read outside a file.
 */
#include "base/alloc.h"
#include "base/file.h"
#include "base/rng.h"
#include "base/span.h"
#include "io/dataset/dataset.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RECORDS = 150, SEEDS = 3000, PAGE = 4096, BRANCH = 1, LEAF = 2 };

static char folder[] = "/tmp/zenith-lmdb-XXXXXX";
static char set[64], broken[64];
static zn_map good;
static uint8_t *bytes; /* the set, to be damaged */

/* Long names make a tree of three levels; small records lie in leaves, large ones on pages of their own. */
static void write_set(zn_dataset_writer *w)
{
    static const uint8_t record[9000];
    char name[512];
    for (int i = 0; i < RECORDS; i++) {
        snprintf(name, sizeof name, "%0400d", i * 7919 % RECORDS);
        assert_int_equal(zn_dataset_writer_add(w, name, record, (size_t)(i * 577 % 9000)), ZN_OK);
    }
    assert_int_equal(zn_dataset_writer_commit(w, NULL), ZN_OK);
}

/* Places to damage, looked for in the good set. */

static const uint8_t *was(const uint8_t *at) { return good.bytes + (at - bytes); }
static uint8_t *about(void)
{
    return bytes + (zn_load64(good.bytes + 144) < zn_load64(good.bytes + PAGE + 144) ? PAGE : 0);
}
static uint8_t *root(void) { return bytes + zn_load64(was(about()) + 128) * PAGE; }
static uint8_t *entry(uint8_t *page, int i) { return page + zn_load16(was(page) + 16 + 2 * i); }
static void put16(uint8_t *at, size_t value) { memcpy(at, &(uint16_t){ (uint16_t)value }, 2); }

/* Branch or leaf number n. */
static uint8_t *page_of_kind(int kind, int n)
{
    for (uint8_t *page = bytes + 2 * PAGE; page < bytes + good.size; page += PAGE)
        if (zn_load64(was(page)) == (uint64_t)(page - bytes) / PAGE && zn_load16(was(page) + 10) == kind && !n--)
            return page;
    fail();
    return bytes;
}

/* The first large record (1), or the first small one (0). */
static uint8_t *record(int large)
{
    for (int n = 0;; n++) {
        uint8_t *page = page_of_kind(LEAF, n);
        for (int i = 0; 16 + 2 * i < zn_load16(was(page) + 12); i++)
            if (zn_load16(was(entry(page, i)) + 4) == large)
                return entry(page, i);
    }
}

/* Opens the damaged set and reads all of it. Records are no pictures, but each must be found. */
static zn_status try_set(void)
{
    zn_dataset *d;
    zn_image *image;
    unlink(broken); /* a file that replaces another waits for the disk */
    FILE *f = fopen(broken, "wb");
    assert_int_equal(fwrite(bytes, 1, good.size, f), good.size);
    fclose(f);
    const zn_status status = zn_dataset_open(broken, &d);
    if (status != ZN_OK) {
        assert_null(d);
        assert_memory_equal(zn_error_text(), broken, strlen(broken));
        assert_null(strchr(zn_error_text(), '\n'));
        return status;
    }
    for (int64_t i = 0; i < zn_dataset_count(d); i++)
        if (zn_dataset_read(d, i, &image) != ZN_OK)
            assert_non_null(strstr(zn_error_text(), "record '"));
        else
            zn_image_free(image);
    zn_dataset_close(d);
    return ZN_OK;
}

/* ---- by chance ---- */

static size_t below(zn_rng *r, size_t limit) { return zn_rng_next(r) % limit; }

/* Numbers as they are in the file, at a limit or anything, where LMDB looks for them; or any bytes. */
static void damage(uint64_t seed)
{
    zn_rng r = zn_rng_new(seed);
    const int kind = (int)below(&r, 5), count = 1 + (int)below(&r, kind ? 3 : 2000);
    for (int i = 0; i < count; i++) {
        const uint64_t any = zn_rng_next(&r), choice = below(&r, 3);
        const uint64_t value = choice == 0 ? any % (good.size / PAGE) : choice == 1 ? PAGE - any % 16 : any;
        uint8_t *page = below(&r, 2) ? page_of_kind(BRANCH, (int)below(&r, 3)) : page_of_kind(LEAF, (int)below(&r, 10));
        uint8_t *at = entry(page, (int)below(&r, 2)) + 2 * below(&r, kind == 4 ? 4 : 208);
        if (kind == 0)
            bytes[below(&r, good.size)] = (uint8_t)value;
        else if (kind == 1) /* what a file says about itself */
            memcpy(about() + below(&r, 152), &value, 1 + below(&r, 8));
        else if (kind == 2) /* the head of a page and the places of its entries */
            put16(page + 2 * below(&r, 12), value);
        else if (at + 2 <= page + PAGE) /* an entry: sizes, flags, key and pages that it points to */
            put16(at, value);
    }
}

static void no_damage_crashes(void **state)
{
    (void)state;
    int refused = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        memcpy(bytes, good.bytes, good.size);
        damage(seed);
        refused += try_set() != ZN_OK;
    }
    assert_in_range(refused, SEEDS / 4, SEEDS - 1);
}

/* ---- on purpose ---- */

static void undamaged(void) {}
static void wrong_size_of_pages(void) { put16(bytes + 40, 4095); }
static void root_outside(void) { put16(about() + 130, 7); }
static void root_is_first(void) { memset(about() + 128, 0, 8); }
static void wrong_depth(void) { put16(about() + 94, 2); }
static void far_too_deep(void) { put16(about() + 94, 999); }
static void wrong_count(void) { put16(about() + 120, RECORDS - 1); }
static void kept_otherwise(void) { put16(about() + 92, 4); }
static void branch_to_itself(void) { put16(entry(root(), 1), (size_t)(root() - bytes) / PAGE); }
static void branch_twice(void) { memcpy(entry(root(), 1), entry(root(), 0), 6); }
static void branch_of_one(void) { put16(root() + 12, 18); }
static void branch_far_away(void) { put16(entry(root(), 0) + 4, 9); }
static void leaf_without_entries(void) { put16(page_of_kind(LEAF, 1) + 12, 16); }
static void entry_beyond(void) { put16(page_of_kind(LEAF, 1) + 18, PAGE - 4); }
static void name_beyond(void) { put16(entry(page_of_kind(LEAF, 1), 0) + 6, 60000); }
static void name_with_zero(void) { entry(page_of_kind(LEAF, 1), 0)[20] = 0; }
static void names_swapped(void) { entry(page_of_kind(LEAF, 1), 0)[8] = 'z'; }
static void record_of_records(void) { put16(entry(page_of_kind(LEAF, 1), 0) + 4, 4); }

static void record_beyond(void) { put16(record(0), 5000); }
static void large_record_beyond(void) { put16(record(1) + 2, 9999); }
static void large_record_nowhere(void) { put16(record(1) + 8 + 400 + 4, 1); }

static void what_is_wrong_is_told(void **state)
{
    (void)state;
    static const struct {
        void (*damage)(void);
        const char *text;
    } cases[] = {
        { undamaged, NULL },
        { wrong_size_of_pages, "page 0 has an impossible size of pages" },
        { root_outside, "points to a page that is not there" },
        { root_is_first, "points to a page that is not there" },
        { wrong_depth, "is not the leaf that it should be" },
        { far_too_deep, "has an impossible depth of the tree" },
        { wrong_count, "has a wrong number of records" },
        { kept_otherwise, "is of a kind of file that no data set is" },
        { branch_to_itself, "points to a page that belongs to another" },
        { branch_twice, "points to a page that belongs to another" },
        { branch_of_one, "has an impossible number of entries" },
        { branch_far_away, "points to a page that is not there" },
        { leaf_without_entries, "has an impossible number of entries" },
        { entry_beyond, "has an entry outside of it" },
        { name_beyond, "has a name that ends outside of it" },
        { name_with_zero, "has a name that no picture can have" },
        { names_swapped, "has names out of order" },
        { record_of_records, "has a record of an unknown kind" },
        { record_beyond, "has a record that ends outside of it" },
        { large_record_beyond, "points to a page that is not there" },
        { large_record_nowhere, "points to a page that is not there" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memcpy(bytes, good.bytes, good.size);
        cases[i].damage();
        assert_int_equal(try_set(), cases[i].text ? ZN_EFORMAT : ZN_OK);
        if (cases[i].text && !strstr(zn_error_text(), cases[i].text))
            fail_msg("\"%s\" is not in \"%s\"", cases[i].text, zn_error_text());
    }
}

int main(void)
{
    zn_dataset_writer *w;
    if (!mkdtemp(folder))
        return 1;
    snprintf(set, sizeof set, "%s/set.lmdb", folder);
    snprintf(broken, sizeof broken, "%s/broken.lmdb", folder);
    if (zn_dataset_writer_open(set, &w) != ZN_OK)
        return 1;
    write_set(w);
    zn_dataset_writer_free(w);
    if (zn_map_open(&good, set) != ZN_OK || !(bytes = zn_alloc(good.size)))
        return 1;
    const struct CMUnitTest tests[] = { cmocka_unit_test(what_is_wrong_is_told), cmocka_unit_test(no_damage_crashes) };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    zn_map_close(&good);
    zn_free(bytes);
    unlink(set);
    unlink(broken);
    rmdir(folder);
    return failed;
}
