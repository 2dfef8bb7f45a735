#include "probe.h"
static const probe_case cases[] = { { NULL, NULL, NULL } };
static bool matches(const golden *g) { return probe_case_find(cases, g) != NULL; }
static zn_status run(golden *g) { return probe_case_find(cases, g)->run(g); }
const golden_kind golden_zenith_train = { "zenith training", matches, run };
