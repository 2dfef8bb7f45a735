/* The layers of a profiled run: for zenith bench and the server. */
#ifndef ZN_CLI_LAYERS_H
#define ZN_CLI_LAYERS_H

#include "ui/json.h"
#include <zenith/zenith.h>

/* A member "layers" of a JSON object: time, work and share of the roofline of each. */
void layers_json(json *j, const zn_bench_result *r);
/* The same as a table on stdout. */
void layers_text(const zn_bench_result *r);

#endif
