/* The content of a request, whether it came as JSON or as multipart/form-data: fields with a name and bytes.
 *
 * From JSON every string, number and boolean of the top object becomes a field, elements of arrays become fields of the
 * same name, members of "options" become fields that are marked as options, and members of "settings" fields of that
 * name with "KEY=VALUE". */
#ifndef ZN_SERVER_FORM_H
#define ZN_SERVER_FORM_H

#include <stddef.h>
#include <zenith/status.h>

typedef struct sv_field {
    char *name;
    char *filename; /* as the client calls it, without folders; NULL: not a file, or a nameless one */
    char *bytes;    /* NUL-terminated; may contain NULs */
    size_t size;
    int binary; /* the bytes of a file; otherwise text, of a file in base64 */
    int option;
} sv_field;

typedef struct sv_form {
    sv_field *fields;
    int count;
} sv_form;

/* type: the Content-Type header; NULL is JSON. Fails with one sentence in zn_error_text. The caller frees *out in any
 * case. */
ZN_MUST_USE zn_status sv_form_parse(const char *type, const char *body, size_t size, sv_form *out);
void sv_form_free(sv_form *form);

/* Field number `index` of this name among those that are not options; NULL: there is none. */
sv_field *sv_form_field(const sv_form *form, const char *name, int index);
/* Its text; NULL: there is none, or it has NULs. */
const char *sv_form_text(const sv_form *form, const char *name);
double sv_form_number(const sv_form *form, const char *name, double otherwise);
/* Makes the bytes of a file from base64 or a data: URL; once for each field. */
ZN_MUST_USE zn_status sv_field_decode(sv_field *field);

/* The parser of multipart/form-data, for fuzzing; boundary without the dashes before it. */
ZN_MUST_USE zn_status sv_multipart_parse(const char *boundary, const char *body, size_t size, sv_form *out);

/* Appends a copy. Returns NULL when out of memory or when there are too many. */
sv_field *sv_form_add(sv_form *form, const char *name, size_t name_size, const char *bytes, size_t size);

#endif
