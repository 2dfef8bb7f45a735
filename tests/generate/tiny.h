/* A model like Z-Image-Turbo, with random weights and a few thousand of them, as a folder of diffusers' layout. */
#ifndef ZN_TESTS_TINY_H
#define ZN_TESTS_TINY_H

/* Writes the folder. */
void tiny_model(const char *folder);

#endif
