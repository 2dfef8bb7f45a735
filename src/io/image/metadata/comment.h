/* The text that describes how an image was generated, as the usual tools keep it: in PNG a text chunk "parameters"
 * (metadata_png.c), elsewhere EXIF's UserComment.
 *
 *     UserComment: character code (8), "UNICODE\0" or "ASCII\0\0\0" | text, UTF-16 or ASCII */
#ifndef ZN_COMMENT_H
#define ZN_COMMENT_H

#include <stddef.h>
#include <stdint.h>
#include <zenith/status.h>

/* Keyword of the text chunk. */
#define ZN_PARAMETERS "parameters"

/* The UserComment of a valid EXIF block as UTF-8, if it describes a generation ("Steps: ..."): cameras leave other
 * things there. *out is NULL if there is none, and is freed with zn_free. */
ZN_MUST_USE zn_status zn_comment_find(const uint8_t *exif, size_t size, char **out);

/* A new EXIF block with this text, which is UTF-8, as its UserComment; freed with zn_free. */
ZN_MUST_USE zn_status zn_comment_exif(const char *text, uint8_t **exif, size_t *size);

/* Text of a chunk as UTF-8: UTF-8 stays, anything else is read as Latin-1. Freed with zn_free. */
ZN_MUST_USE zn_status zn_comment_copy(const uint8_t *text, size_t size, char **out);

#endif
