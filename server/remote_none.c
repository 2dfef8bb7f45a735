/* Jobs on other machines in a build without hiredis: none. */
#include "server/remote.h"

#include "base/fail.h"

sv_remote *sv_remote_open(const char *url)
{
    (void)url;
    zn_fail(ZN_EUNSUPPORTED, "this build cannot use Redis; install libhiredis-dev and rebuild");
    return NULL;
}

sv_worker *sv_worker_start(sv_server *server)
{
    (void)server;
    zn_fail(ZN_EUNSUPPORTED, "this build cannot use Redis; install libhiredis-dev and rebuild");
    return NULL;
}

/* What cannot be opened needs none of these. */
void sv_remote_close(sv_remote *remote) { (void)remote; }
void sv_worker_close(sv_worker *worker) { (void)worker; }
void sv_worker_stop(sv_worker *worker) { (void)worker; }

int sv_worker_busy(const sv_worker *worker)
{
    (void)worker;
    return 0;
}

const char *sv_worker_queue(const sv_worker *worker)
{
    (void)worker;
    return "";
}

zn_status sv_remote_run(sv_remote *remote, sv_job *job)
{
    (void)remote, (void)job;
    return ZN_EUNSUPPORTED;
}
