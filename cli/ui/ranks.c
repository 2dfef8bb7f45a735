/* Joining, running, leaving. */
#include "ui/ranks.h"

#include "ui/report.h"

#include <stdlib.h>

int on_ranks(const options *o, int (*run)(const options *o, zn_ranks *ranks))
{
    zn_ranks *ranks;
    if (zn_ranks_open(&ranks) != ZN_OK) {
        complain("%s", zn_error_text());
        return EXIT_FAILURE;
    }
    if (zn_ranks_rank(ranks) > 0)
        report_silence();
    const int status = run(o, ranks);
    zn_ranks_close(ranks);
    return status;
}
