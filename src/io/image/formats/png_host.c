/* The callbacks that reading and writing PNG share. */
#include "io/image/formats/png_host.h"

#include "base/alloc.h"

#include <stdio.h>

void zn_png_on_error(png_structp png, png_const_charp text)
{
    zn_png_host *h = png_get_error_ptr(png);
    snprintf(h->message, sizeof h->message, "%s", text);
    png_longjmp(png, 1);
}

void zn_png_on_warning(png_structp png, png_const_charp text) { (void)png, (void)text; }

png_voidp zn_png_take_memory(png_structp png, png_alloc_size_t size)
{
    zn_png_host *h = png_get_mem_ptr(png);
    void *block = zn_alloc(size);
    h->no_memory |= !block;
    return block;
}

void zn_png_give_memory(png_structp png, png_voidp block)
{
    (void)png;
    zn_free(block);
}
