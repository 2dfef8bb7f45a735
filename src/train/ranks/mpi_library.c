/* Opens MPI's library. ZN_MPI_LIBRARY is its file name, "libmpi.so.40", as the build found it. */
#include "train/ranks/mpi_library.h"

#include "base/fail.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

zn_mpi_library zn_mpi;
static pthread_once_t opened = PTHREAD_ONCE_INIT;
static char missing[256]; /* why it cannot be used; "" if it can */

static void find(void *library, const char *name, void *to)
{
    void *at = library ? dlsym(library, name) : NULL;
    if (!at && !missing[0])
        snprintf(missing, sizeof missing, "%s is not in it", name);
    memcpy(to, &at, sizeof at); /* C has no cast from data to functions */
}

/* It stays open until the program ends; global, because the parts that it opens itself look for its functions. */
static void open_all(void)
{
    void *library = dlopen(ZN_MPI_LIBRARY, RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        snprintf(missing, sizeof missing, "%s", dlerror());
#define FIND_CALL(name) find(library, "MPI_" #name, &zn_mpi.name);
    ZN_MPI_CALLS(FIND_CALL)
#ifdef OPEN_MPI
#define FIND_CONSTANT(type, name, object) find(library, #object, &zn_mpi.name);
#else /* numbers of the header */
#define FIND_CONSTANT(type, name, object) zn_mpi.name = MPI_##name;
#endif
    ZN_MPI_CONSTANTS(FIND_CONSTANT)
}

zn_status zn_mpi_open(void)
{
    pthread_once(&opened, open_all);
    return missing[0] ? ZN_FAIL(ZN_EUNSUPPORTED, "cannot use " ZN_MPI_LIBRARY ": %s", missing) : ZN_OK;
}
