/* Available memory, as estimated by the kernel. */
#define _DEFAULT_SOURCE /* _SC_AVPHYS_PAGES */
#include "base/memory.h"

#include <stdio.h>
#include <unistd.h>

size_t zn_memory_available(const char *meminfo)
{
    char line[256];
    unsigned long long kilobytes = 0;
    FILE *f = fopen(meminfo, "r");
    while (f && !kilobytes && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu kB", &kilobytes) != 1)
            kilobytes = 0;
    if (f)
        fclose(f);
    if (kilobytes)
        return (size_t)kilobytes * 1024;
    const long pages = sysconf(_SC_AVPHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (size_t)pages * (size_t)size : (size_t)1 << 30;
}
