/* How much memory the machine has to give. */
#ifndef ZN_MEMORY_H
#define ZN_MEMORY_H

#include <stddef.h>

/* Bytes that can be had without swapping, by a file such as ZN_MEMINFO: with what files in the cache take, which is
 * most of the memory of a machine that has been on for a while. Where the file does not tell, what is free. */
#define ZN_MEMINFO "/proc/meminfo"
size_t zn_memory_available(const char *meminfo);

#endif
