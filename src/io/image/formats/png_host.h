/* What libpng needs of whoever calls it, for reading and writing alike: memory from our allocator, and a place for its
 * sentence before it jumps. Both of libpng's pointers are the zn_png_host. */
#ifndef ZN_IO_IMAGE_PNG_HOST_H
#define ZN_IO_IMAGE_PNG_HOST_H

#include <png.h>
#include <stdbool.h>

typedef struct zn_png_host {
    bool no_memory; /* an allocation failed, even if libpng went on without it */
    char message[128];
} zn_png_host;

void zn_png_on_error(png_structp png, png_const_charp text);
void zn_png_on_warning(png_structp png, png_const_charp text);
png_voidp zn_png_take_memory(png_structp png, png_alloc_size_t size);
void zn_png_give_memory(png_structp png, png_voidp block);

/* The arguments of png_create_*_struct_2. */
#define ZN_PNG_HOST(host)                                                                                              \
    PNG_LIBPNG_VER_STRING, (host), zn_png_on_error, zn_png_on_warning, (host), zn_png_take_memory, zn_png_give_memory

#endif
