/* The zip archives PyTorch writes: entries stored without compression, read in place; zip64 included.
 *
 *     zn_zip zip;
 *     ZN_TRY(zn_zip_open(&zip, bytes, size, "model.pth"));
 *     ZN_TRY(zn_zip_read(&zip, zn_zip_find(&zip, "archive/data.pkl", 16), &data, &length));
 *     zn_zip_close(&zip); */
#ifndef ZN_ZIP_H
#define ZN_ZIP_H

#include <stddef.h>
#include <stdint.h>
#include <zenith/status.h>

typedef struct zn_zip_entry {
    const char *name; /* borrowed from the archive, not NUL-terminated */
    uint64_t header;  /* offset of the local header */
    uint64_t size, packed;
    uint16_t name_length, method, flags;
} zn_zip_entry;

typedef struct zn_zip {
    const uint8_t *bytes;
    size_t size;
    const char *name;      /* of the archive, borrowed, for messages */
    zn_zip_entry *entries; /* sorted by name; all names differ */
    size_t count;
} zn_zip;

ZN_MUST_USE zn_status zn_zip_open(zn_zip *zip, const uint8_t *bytes, size_t size, const char *name);
void zn_zip_close(zn_zip *zip);

const zn_zip_entry *zn_zip_find(const zn_zip *zip, const char *name, size_t length); /* NULL if absent */
/* The bytes of an entry, inside the archive. Refuses compressed and encrypted entries. */
ZN_MUST_USE zn_status zn_zip_read(const zn_zip *zip, const zn_zip_entry *entry, const uint8_t **data, size_t *size);

#endif
