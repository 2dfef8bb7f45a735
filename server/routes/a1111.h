/* The API of AUTOMATIC1111's web UI, as its clients use it. */
#ifndef ZN_SERVER_A1111_H
#define ZN_SERVER_A1111_H

#include "server/server.h"

void sv_a1111_generate(const sv_request *r, sv_answer *a); /* txt2img and img2img */
void sv_a1111_extra(const sv_request *r, sv_answer *a);
void sv_a1111_png_info(const sv_request *r, sv_answer *a);
void sv_a1111_progress(const sv_request *r, sv_answer *a);
void sv_a1111_interrupt(const sv_request *r, sv_answer *a);
void sv_a1111_skip(const sv_request *r, sv_answer *a);
void sv_a1111_options(const sv_request *r, sv_answer *a);
void sv_a1111_set_options(const sv_request *r, sv_answer *a);
void sv_a1111_models(const sv_request *r, sv_answer *a);
void sv_a1111_samplers(const sv_request *r, sv_answer *a);
void sv_a1111_schedulers(const sv_request *r, sv_answer *a);
void sv_a1111_loras(const sv_request *r, sv_answer *a);
void sv_a1111_upscalers(const sv_request *r, sv_answer *a);
void sv_a1111_empty(const sv_request *r, sv_answer *a);   /* an empty list */
void sv_a1111_nothing(const sv_request *r, sv_answer *a); /* {} */

#endif
