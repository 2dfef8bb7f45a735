/* zenith serve in a build without libmicrohttpd. */
#include "server/serve.h"
#include "ui/report.h"

#include <stdlib.h>

int serve(const serve_settings *settings)
{
    (void)settings;
    complain("this build has no server; install libmicrohttpd-dev and rebuild");
    return EXIT_FAILURE;
}
