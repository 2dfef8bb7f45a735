/* Folders and pictures for the tests of whole runs.
 *
 *     cmocka_run_group_tests_name("train", tests, files_set_up, files_tear_down)     // folder, with pictures/ in it */
#ifndef ZN_TESTS_TRAIN_FILES_H
#define ZN_TESTS_TRAIN_FILES_H

#include <stddef.h>
#include <zenith/train.h>

extern char folder[64];
int files_set_up(void **state);
int files_tear_down(void **state);

/* The path of a name in the folder; good for the next seven calls. */
const char *in_folder(const char *name);
/* A new folder of smooth coloured pictures, all different. */
void make_pictures(const char *where, int count, int side);
void write_text(const char *path, const char *text);
/* The bytes of a file in the folder, and a zero; free. The same of a short text, good until the next call. */
char *contents(const char *name, size_t *size);
const char *text_of(const char *name);
/* Fails the test unless two weights files hold the same bits. */
void same_tensors(const char *a, const char *b);

void expect_text(const char *words); /* in the last error */
/* A progress function: stops at the step that `user`, an int64_t, says. */
int stop_at(void *user, const zn_train_progress *p);

#endif
