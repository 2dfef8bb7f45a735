/* Labels: which attributes the pictures of a data set have, from a text file beside them.
 *
 *     202599                                          file,Smiling,Young
 *     5_o_Clock_Shadow Arched_Eyebrows ...            a.jpg,1,0
 *     000001.jpg -1  1 ...                            sub/b.jpg,0,1
 *
 *     zn_labels *l;
 *     ZN_TRY(zn_labels_read("photos/labels.csv", &l));
 *     has = zn_labels_of(l, "sub/b.jpg");             // [l->count], or NULL
 *     zn_labels_free(l);
 *
 * A first line that is a number is skipped. Then the names of the attributes, and a line for each picture: its name,
 * then 1 for what it has, -1 or 0 for what not, ? or (between commas) nothing for what is not known. Words are
 * separated by commas if there is one in the line of names, else by blanks. The line of names may begin with a name for
 * the first column. */
#ifndef ZN_LABELS_H
#define ZN_LABELS_H

#include "base/arena.h"

#include <stddef.h>
#include <stdint.h>
#include <zenith/status.h>

enum { ZN_LABEL_UNKNOWN = 2 };

typedef struct zn_label {
    const char *file;
    const uint8_t *has; /* 0, 1 or ZN_LABEL_UNKNOWN for each attribute */
} zn_label;

typedef struct zn_labels {
    zn_arena arena; /* all memory but the list's */
    const char **names;
    int count; /* attributes */
    zn_label *list;
    int64_t pictures;
    size_t capacity;
} zn_labels;

ZN_MUST_USE zn_status zn_labels_read(const char *path, zn_labels **out);
/* name: for messages. */
ZN_MUST_USE zn_status zn_labels_parse(const char *text, size_t size, const char *name, zn_labels **out);
void zn_labels_free(zn_labels *l);

/* Of a picture by its name in the data set; crops ("SOURCE#N") have what their source has, and
 * records of the original DiffAE's folders ("256-00042") what CelebA-HQ's labels say of 42.jpg. NULL: it is not named.
 */
const uint8_t *zn_labels_of(const zn_labels *l, const char *picture);

#endif
