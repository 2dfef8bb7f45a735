/* Training runs over HTTP. */
#ifndef ZN_SERVER_RUNS_ROUTES_H
#define ZN_SERVER_RUNS_ROUTES_H

#include "server/server.h"

void sv_get_recipes(const sv_request *r, sv_answer *a);
void sv_get_data(const sv_request *r, sv_answer *a);
void sv_get_runs(const sv_request *r, sv_answer *a);
void sv_post_run(const sv_request *r, sv_answer *a);
void sv_get_run(const sv_request *r, sv_answer *a);
void sv_get_run_metrics(const sv_request *r, sv_answer *a);
void sv_get_run_events(const sv_request *r, sv_answer *a);
void sv_get_run_sample(const sv_request *r, sv_answer *a);
void sv_stop_run(const sv_request *r, sv_answer *a);
void sv_resume_run(const sv_request *r, sv_answer *a);

#endif
