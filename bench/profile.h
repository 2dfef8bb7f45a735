/* Prints the profile of the last run of an executor, longest first. Rows of the same op, kernel and result are added
 * up.
 */
#ifndef ZN_BENCH_PROFILE_H
#define ZN_BENCH_PROFILE_H

#include "graph/exec.h"

void print_profile(const zn_exec *e);

#endif
