/* What the routes of other programs' APIs share. */
#ifndef ZN_SERVER_RESULT_H
#define ZN_SERVER_RESULT_H

#include "server/routes/routes.h"

/* Result `index` of a finished job in base64; the caller frees it. NULL: it cannot be read. */
char *sv_result_base64(const sv_job *job, int index);
/* The seed of result `index` of generate, which is its name: images before it may have been skipped. */
uint64_t sv_result_seed(const sv_job *job, int index);
/* A new job, not queued yet; NULL after answering with an error. */
sv_job *sv_begin_job(const sv_request *r, sv_answer *a, const sv_task *task);
/* Queues it if status is ZN_OK. Otherwise, or if the queue is full, answers with an error, releases it and returns 0.
 */
int sv_submit_or_answer(sv_answer *a, sv_job *job, zn_status status);
/* Sets an option unless value is NULL or empty; status is that of earlier calls, which is kept if it is a failure. */
zn_status sv_option(zn_status status, sv_job *job, const char *name, const char *value);

/* Other programs send 512x512 or 1024x1024 unless somebody sets another size, and a model with a size of its own draws
 * nothing recognisable then. True if this is such a size: the caller leaves it out, and a remark says so. */
int sv_takes_own_size(sv_job *job, double width, double height);

#endif
