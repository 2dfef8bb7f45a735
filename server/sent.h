/* Images that come with the request for a run, in a folder beside it. Writing them as they came is quick; making files
 * of them that training takes is not, and happens on the thread of the run. */
#ifndef ZN_SERVER_SENT_H
#define ZN_SERVER_SENT_H

#include "server/form.h"

#include <stdatomic.h>
#include <stdint.h>
#include <zenith/status.h>

ZN_MUST_USE zn_status sv_sent_keep(const char *folder, const sv_form *form);
/* The sentence of a failure begins with the name that the client gave the image. halts: non-zero ends it. */
ZN_MUST_USE zn_status sv_sent_decode(const char *folder, int64_t most_pixels, const atomic_int *halts);

#endif
