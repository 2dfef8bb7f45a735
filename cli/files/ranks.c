/* Joins the other processes, runs a command and leaves. */
#include "files/ranks.h"

#include "ui/report.h"

#include <stdlib.h>

int ranks_join(zn_ranks **out)
{
    if (zn_ranks_open(out) != ZN_OK) {
        complain("%s", zn_error_text());
        return EXIT_FAILURE;
    }
    if (zn_ranks_rank(*out) > 0)
        report_silence();
    return 0;
}

int ranks_agree(zn_ranks *ranks, int status)
{
    if (zn_ranks_agree(ranks, status ? ZN_EINVALID : ZN_OK) == ZN_OK)
        return 0;
    if (!status)
        complain("%s", zn_error_text());
    return status ? status : EXIT_FAILURE;
}

int on_ranks(const options *o, int (*run)(const options *o, zn_ranks *ranks))
{
    zn_ranks *ranks;
    int status = ranks_join(&ranks);
    if (!status)
        status = run(o, ranks);
    zn_ranks_close(ranks);
    return status;
}
