/* Libraries that are opened when the first file needs them. They stay open until the program ends. */
#include "io/image/formats/library.h"

#include "base/fail.h"

#include <dlfcn.h>
#include <string.h>

/* The first thing that is not there; NULL when all is found. */
static const char *find_all(const zn_library *library)
{
    void *handle = dlopen(library->name, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return library->name;
    for (int i = 0; i < library->count; i++) {
        void *function = dlsym(handle, library->calls[i].name);
        if (!function)
            return library->calls[i].name;
        memcpy(library->calls[i].pointer, &function, sizeof function); /* C has no cast from data to functions */
    }
    return NULL;
}

zn_status zn_library_open(zn_library *library, const char *file, const char *format)
{
    pthread_mutex_lock(&library->lock);
    const char *missing = library->opened ? NULL : find_all(library);
    library->opened = !missing;
    pthread_mutex_unlock(&library->lock);
    return missing ? ZN_FAIL(ZN_EUNSUPPORTED, "%s: reading %s needs %s, and %s was not found; install it", file, format,
                             library->name, missing)
                   : ZN_OK;
}
