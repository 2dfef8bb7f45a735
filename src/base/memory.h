/* Available memory of the machine. */
#ifndef ZN_MEMORY_H
#define ZN_MEMORY_H

#include <stddef.h>

/* Bytes that can be allocated without swapping, read from a file such as ZN_MEMINFO. This includes the page cache,
 * which holds most of the memory of a machine that has been running for a while. If the file does not report it,
 * it is the free memory. Processes that share the machine (zn_memory_share_among) get equal parts of it. */
#define ZN_MEMINFO "/proc/meminfo"
size_t zn_memory_available(const char *meminfo);

/* How many processes of one job share this machine, this one included; at first 1. Each may then count on its share of
 * what is available. */
void zn_memory_share_among(int processes);

/* What a process takes besides all that is counted: the program, its libraries and the stacks of its threads. */
enum { ZN_MEMORY_PROGRAM = 14 << 20 };

#endif
