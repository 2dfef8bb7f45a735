/* Jobs that run on other machines: a queue in Redis, from which workers (zenith serve --worker) take them. Its keys:
 *
 * - zenith:jobs, a stream of {id} with the consumer group "workers". An entry stays pending until its job ends; the
 *   worker that runs it renews it, and one that was not renewed for a while goes to another worker.
 * - zenith:job:ID, a hash: request (JSON) and files. It exists as long as somebody waits for the job: the server that
 *   took the job renews it, and deletes it to cancel.
 * - zenith:events:ID, a stream of what workers report, with the number of the attempt. Reports of earlier attempts are
 *   ignored, so a worker that was only slow cannot spoil the result of the next.
 * - zenith:results:ID, a hash: bytes of the results. */
#ifndef ZN_SERVER_REMOTE_H
#define ZN_SERVER_REMOTE_H

#include "server/server.h"

#define SV_KEY_JOBS    "zenith:jobs"
#define SV_KEY_JOB     "zenith:job:" /* and the id, as the next two */
#define SV_KEY_EVENTS  "zenith:events:"
#define SV_KEY_RESULTS "zenith:results:"
#define SV_GROUP       "workers"

/* How long keys outlive the process that renews them, in seconds. */
enum { SV_LEASE_SECONDS = 60 };

/* Creates the stream and its group if they are not there. */
struct sv_redis;
ZN_MUST_USE zn_status sv_remote_make_group(struct sv_redis *redis);

/* The side of the server. NULL after a failure: the queue server is checked at once. */
sv_remote *sv_remote_open(const char *url);
void sv_remote_close(sv_remote *remote);
/* Lets a worker run the job, and waits for its end. Fails as the job did. */
ZN_MUST_USE zn_status sv_remote_run(sv_remote *remote, sv_job *job);

/* The side of the worker, with settings->workers jobs at a time. NULL after a failure. */
typedef struct sv_worker sv_worker;
sv_worker *sv_worker_start(sv_server *server);
/* HOST:PORT/DATABASE of the queue server. */
const char *sv_worker_queue(const sv_worker *worker);
/* Takes no more jobs. */
void sv_worker_close(sv_worker *worker);
int sv_worker_busy(const sv_worker *worker);
/* Gives unfinished jobs back to the queue. */
void sv_worker_stop(sv_worker *worker);

#endif
