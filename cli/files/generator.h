/* Whether a name stands for a model of `zenith generate`. */
#ifndef ZN_CLI_GENERATOR_H
#define ZN_CLI_GENERATOR_H

/* True if its transformer or text encoder is found under this name or, with `folder`, inside the folder of this name.
 */
int is_generator(const char *model, int folder);

#endif
