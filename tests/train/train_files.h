/* Folders and images for the tests of whole runs.
 *
 *     cmocka_run_group_tests_name("train", tests, files_set_up, files_tear_down)     // folder, with pictures/ in it */
#ifndef ZN_TESTS_TRAIN_FILES_H
#define ZN_TESTS_TRAIN_FILES_H

#include <stddef.h>
#include <zenith/train.h>

extern char folder[64];
int files_set_up(void **state);
int files_tear_down(void **state);

/* The path of a name in the folder; valid for the next seven calls. */
const char *in_folder(const char *name);
/* Makes a new folder of smooth coloured images, all different. */
void make_pictures(const char *where, int count, int side);
void write_text(const char *path, const char *text);
/* contents: the bytes of a file in the folder, followed by a zero; free. text_of: the same for a short text, valid
 * until the next call. */
char *contents(const char *name, size_t *size);
const char *text_of(const char *name);
/* Fails the test unless two weights files contain the same bits. */
void same_tensors(const char *a, const char *b);

void expect_text(const char *words); /* in the last error */
/* A progress function that stops at the step in `user`, an int64_t. */
int stop_at(void *user, const zn_train_progress *p);

#endif
