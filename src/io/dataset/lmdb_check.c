/* LMDB believes what the pages of a file say, so they are checked before it sees them: every page that a reader can
 * come to, and in it every number that LMDB goes by. Pictures are not looked at; their decoders take nothing on trust.
 *
 * Pages have one size and are known by their number. 0 and 1 describe the file, and the later transaction of the two
 * counts; data sets are the "main" tree that it names. All numbers are little-endian.
 *
 *     page    0 number, 8 bytes   10 kind   12 lower   14 upper   16 offset of each entry, 2 bytes, up to `lower`
 *     entry   0 low   2 high   4 flags   6 length of the key   8 key, then the value (in a leaf)
 *             branch: low, high and flags are the number of the page below; the first key is not used
 *             leaf:   low and high are the size of the value; flag BIG: 8 bytes with the number of its first page,
 *                     where it begins after 16 bytes and continues through the following pages
 *     about   16 magic   20 version   40 page size   88 tree: 92 flags   94 depth   120 records   128 root
 *             136 last page   144 transaction
 *
 * A file that somebody changes after this check, while it is open, is out of reach: LMDB reads it through a map. Data
 * sets are never changed in place (lmdb_write.c). */
#include "io/dataset/lmdb_use.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/span.h"

static const uint32_t MAGIC = 0xBEEFC0DE;
enum { VERSION = 1, LEAST_PAGE = 512, MOST_PAGE = 1 << 15 };
enum { HEADER = 16, ABOUT_SIZE = 152, ENTRY = 8, BRANCH = 1, LEAF = 2, ABOUT = 8, BIG = 1 };
enum { MOST_DEPTH = 32, MOST_KEY = 511 }; /* LMDB's own limits */

typedef struct key {
    const uint8_t *bytes;
    size_t size;
} key;

typedef struct walk {
    const char *path;
    const uint8_t *bytes;
    size_t page_size;
    uint64_t pages; /* that the file says it has, all of them there */
    unsigned depth; /* of every leaf */
    uint8_t *taken; /* a bit for each page that was pointed to */
    key last;       /* keys come in order */
    bool or_equal;  /* the last key was that of a branch, with which the next leaf may begin */
    uint64_t records;
} walk;

static zn_status damaged(const walk *w, uint64_t page, const char *what)
{
    return ZN_FAIL(ZN_EFORMAT, "%s: damaged: page %llu %s", w->path, (unsigned long long)page, what);
}

/* Pages [first, first + count), which the page `from` points to: they are there and nobody else's. */
static zn_status take(walk *w, uint64_t from, uint64_t first, uint64_t count)
{
    if (first < 2 || !zn_span_fits(first, count, w->pages))
        return damaged(w, from, "points to a page that is not there");
    for (uint64_t page = first; page < first + count; page++) {
        if (w->taken[page / 8] >> page % 8 & 1)
            return damaged(w, from, "points to a page that belongs to another");
        w->taken[page / 8] |= (uint8_t)(1 << page % 8);
    }
    return ZN_OK;
}

static zn_status check_order(walk *w, uint64_t page, key k, bool in_branch)
{
    const size_t common = k.size < w->last.size ? k.size : w->last.size;
    int order = common ? memcmp(w->last.bytes, k.bytes, common) : 0;
    if (!order)
        order = (w->last.size > k.size) - (w->last.size < k.size);
    if (w->last.bytes && (order > 0 || (!order && !w->or_equal)))
        return damaged(w, page, "has names out of order");
    w->last = k;
    w->or_equal = in_branch;
    return ZN_OK;
}

/* A record: an entry of a leaf, whose key lies within the page. */
static zn_status check_record(walk *w, uint64_t page, const uint8_t *entry, size_t capacity, key k)
{
    const size_t begin = ENTRY + k.size, flags = zn_load16(entry + 4);
    const uint64_t size = zn_load32(entry);
    if (k.size < 1 || k.size > MOST_KEY || memchr(k.bytes, 0, k.size))
        return damaged(w, page, "has a name that no picture can have");
    if (flags & ~(size_t)BIG)
        return damaged(w, page, "has a record of an unknown kind");
    if (!zn_span_fits(begin, flags & BIG ? sizeof(uint64_t) : size, capacity))
        return damaged(w, page, "has a record that ends outside of it");
    w->records++;
    ZN_TRY(check_order(w, page, k, false));
    return flags & BIG ? take(w, page, zn_load64(entry + begin), (HEADER + size + w->page_size - 1) / w->page_size)
                       : ZN_OK;
}

/* A page of the tree, already taken, and all below it; level 1 is the root. */
static zn_status check_page(walk *w, uint64_t page, unsigned level)
{
    const uint8_t *p = w->bytes + page * w->page_size;
    const size_t kind = zn_load16(p + 10), lower = zn_load16(p + 12), upper = zn_load16(p + 14);
    const bool leaf = level == w->depth;
    if (zn_load64(p) != page || kind != (leaf ? LEAF : BRANCH))
        return damaged(w, page, leaf ? "is not the leaf that it should be" : "is not the branch that it should be");
    /* LMDB stops the program at a branch with one way */
    if (lower < HEADER + (leaf ? 2 : 4) || lower % 2 || lower > upper || upper > w->page_size)
        return damaged(w, page, "has an impossible number of entries");
    for (size_t at = HEADER; at < lower; at += 2) {
        const size_t offset = zn_load16(p + at);
        if (offset < upper || offset % 2 || !zn_span_fits(offset, ENTRY, w->page_size))
            return damaged(w, page, "has an entry outside of it");
        const uint8_t *entry = p + offset;
        const key k = { entry + ENTRY, zn_load16(entry + 6) };
        const size_t capacity = w->page_size - offset;
        if (!zn_span_fits(ENTRY, k.size, capacity))
            return damaged(w, page, "has a name that ends outside of it");
        if (leaf) {
            ZN_TRY(check_record(w, page, entry, capacity, k));
            continue;
        }
        const uint64_t below = zn_load32(entry) | (uint64_t)zn_load16(entry + 4) << 32;
        if (at > HEADER)
            ZN_TRY(check_order(w, page, k, true));
        ZN_TRY(take(w, page, below, 1));
        ZN_TRY(check_page(w, below, level + 1));
    }
    return ZN_OK;
}

/* One of the two pages about the file. */
static bool is_about(const uint8_t *p)
{
    return zn_load16(p + 10) & ABOUT && zn_load32(p + 16) == MAGIC && zn_load32(p + 20) == VERSION;
}

/* The tree that a page about the file names. */
static zn_status check_tree(walk *w, uint64_t about)
{
    const uint8_t *p = w->bytes + about * w->page_size;
    const uint64_t root = zn_load64(p + 128), records = zn_load64(p + 120);
    w->depth = zn_load16(p + 94);
    if (zn_load16(p + 92))
        return damaged(w, about, "is of a kind of file that no data set is");
    if (root == UINT64_MAX) /* a tree without a page */
        return records || w->depth ? damaged(w, about, "has a wrong number of records") : ZN_OK;
    if (w->depth < 1 || w->depth > MOST_DEPTH)
        return damaged(w, about, "has an impossible depth of the tree");
    ZN_TRY(take(w, about, root, 1));
    ZN_TRY(check_page(w, root, 1));
    return w->records == records ? ZN_OK : damaged(w, about, "has a wrong number of records");
}

zn_status zn_lmdb_check(const char *path, const uint8_t *bytes, size_t size)
{
    walk w = { .path = path, .bytes = bytes };
    if (size < ABOUT_SIZE || !is_about(bytes))
        return ZN_FAIL(ZN_EFORMAT, "%s: not an LMDB file", path);
    w.page_size = zn_load32(bytes + 40);
    if (w.page_size < LEAST_PAGE || w.page_size > MOST_PAGE || w.page_size & (w.page_size - 1))
        return damaged(&w, 0, "has an impossible size of pages");
    const uint8_t *second = bytes + w.page_size;
    if (!zn_span_fits(w.page_size, ABOUT_SIZE, size))
        return ZN_FAIL(ZN_EFORMAT, "%s: cut short: its first pages are not there", path);
    if (!is_about(second) || zn_load32(second + 40) != w.page_size)
        return damaged(&w, 1, "does not tell about the file");
    const uint64_t about = zn_load64(bytes + 144) < zn_load64(second + 144), there = size / w.page_size;
    const uint64_t last = zn_load64((about ? second : bytes) + 136);
    if (last >= there)
        return ZN_FAIL(ZN_EFORMAT, "%s: cut short: %llu pages of %llu are there", path, (unsigned long long)there,
                       (unsigned long long)last + 1);
    w.pages = last + 1;
    w.taken = zn_calloc(w.pages / 8 + 1, 1);
    if (!w.taken)
        return ZN_FAIL(ZN_ENOMEM, "%s: out of memory for a check of %llu pages", path, (unsigned long long)w.pages);
    const zn_status status = check_tree(&w, about);
    zn_free(w.taken);
    return status;
}
