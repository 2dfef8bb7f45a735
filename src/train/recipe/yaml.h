/* The little YAML that recipes are written in: mappings of scalars, two levels deep.
 *
 *     lr: 1e-3                        # a comment
 *     loss:
 *       l1: 1
 *     distill: {joint: 1000, teacher: "weights/#1"}
 *
 *     ZN_TRY(zn_yaml_read(text, size, "small.yaml", set, &recipe));       // set(&recipe, "loss.l1", "1", ..)
 *
 * A scalar may stand in double quotes, where \" and \\ are a quote and a backslash, or in single ones, where '' is a
 * quote; then it may hold anything that fits on its line. */
#ifndef ZN_YAML_H
#define ZN_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <zenith/status.h>

/* One value by its dotted key, or NULL where a key stands alone: nothing, or a mapping below it. `where` is for
 * messages: name and line. */
typedef zn_status (*zn_yaml_fn)(void *user, const char *key, const char *value, const char *where);

ZN_MUST_USE zn_status zn_yaml_read(const char *text, size_t size, const char *name, zn_yaml_fn set, void *user);

/* A text as a scalar, in quotes where it needs them; returns the length like snprintf. Line breaks have no place in it:
 * zn_yaml_can_hold. */
int zn_yaml_scalar(const char *text, char *out, size_t size);
/* A number, 17 digits only where they are needed, with a point before an exponent: without one YAML 1.1 reads a text.
 * Returns the length. */
int zn_yaml_number(double v, char *out, size_t size);
bool zn_yaml_can_hold(const char *text);

#endif
