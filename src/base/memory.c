/* Available memory, as estimated by the kernel. */
#define _DEFAULT_SOURCE /* _SC_AVPHYS_PAGES */
#include "base/memory.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static atomic_int sharers = 1;

void zn_memory_share_among(int processes) { sharers = processes > 1 ? processes : 1; }

static size_t available(const char *meminfo)
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

size_t zn_memory_available(const char *meminfo) { return available(meminfo) / (size_t)sharers; }
