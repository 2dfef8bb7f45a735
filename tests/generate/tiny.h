/* A model like Z-Image-Turbo, with random weights and a few thousand of them, as a folder of diffusers' layout. */
#ifndef ZN_TESTS_TINY_H
#define ZN_TESTS_TINY_H

/* Writes the folder. */
void tiny_model(const char *folder);

/* For groups of tests: a new folder, the model in "tiny" inside it, and what removes both. */
extern char tiny_root[32], tiny_folder[64];
int tiny_setup(void **state);
int tiny_teardown(void **state);

#endif
