/* A build without libcurl. */
#include "base/fail.h"
#include "io/net/transfer.h"

zn_status zn_transfer_run(zn_transfer *transfer)
{
    return ZN_FAIL(ZN_EUNSUPPORTED, "%s: this build cannot fetch files; install libcurl4-openssl-dev and rebuild",
                   transfer->url);
}
