/* OpenAI's API for images. */
#ifndef ZN_SERVER_OPENAI_H
#define ZN_SERVER_OPENAI_H

#include "server/server.h"

void sv_openai_models(const sv_request *r, sv_answer *a);
void sv_openai_generate(const sv_request *r, sv_answer *a);
void sv_openai_edit(const sv_request *r, sv_answer *a);

#endif
