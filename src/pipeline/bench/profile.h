/* From measured times to the public profile rows. */
#ifndef ZN_PROFILE_H
#define ZN_PROFILE_H

#include "pipeline/codec/runner.h"

/* What the device can do, or, without one, this machine. */
ZN_MUST_USE zn_status zn_machine_of(const zn_compute *c, zn_precision precision, zn_machine *out);

/* Rows of `runs` runs, as means; *rows is the caller's, names are borrowed from `from`. */
ZN_MUST_USE zn_status zn_profile_rows(const zn_runner_rows *from, const zn_machine *machine, int runs,
                                      zn_profile_row **rows, int *count);

#endif
