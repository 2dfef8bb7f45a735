/* Helpers of the model tests: models as bytes of a .safetensors file, and configurations small enough to run. */
#ifndef MODEL_FILE_H
#define MODEL_FILE_H

#include "models/model.h"

/* The caller frees the bytes (zn_free). Permutations are stored as I32, the rest as F32. */
uint8_t *model_bytes(const zn_model *m, size_t *size);

/* A small version of a preset with this base width and image side, and random weights from a seed. */
zn_model *small_model(const char *preset, int width, int side, uint64_t seed);

zn_model_parameter *parameter_of(const zn_model *m, const char *name); /* fails the test if it is missing */

#endif
