/* A list of facts that is printed for people as lines "key  value" or for scripts as members of one JSON object: the
 * commands state each fact once. The JSON object is printed when the command has ended, by facts_print.
 *
 *     facts f;
 *     facts_begin(&f, o->json);
 *     fact_text(&f, "model", "taesd");
 *     fact_real(&f, "psnr", 31.2, 2, " dB");
 *     facts_end(&f);
 *
 * Nested JSON goes straight to f.out, after asking f.json. */
#ifndef ZN_CLI_FACTS_H
#define ZN_CLI_FACTS_H

#include "ui/json.h"
#include <zenith/zenith.h>

typedef struct facts {
    int json;
    json out;
} facts;

void facts_begin(facts *f, int as_json);
void facts_end(facts *f);
void fact_text(facts *f, const char *key, const char *value);
void fact_integer(facts *f, const char *key, int64_t value);
void fact_bool(facts *f, const char *key, int value); /* "yes" or "no" for people */
/* decimals and unit are for people; JSON gets the bare number, or null if it is not finite. */
void fact_real(facts *f, const char *key, double value, int decimals, const char *unit);
void fact_bytes(facts *f, const char *key, int64_t value);
/* psnr, ssim, max_difference; for equal images psnr is null in JSON and "identical" is true. */
void fact_difference(facts *f, const zn_image_difference *d);
/* What was computed in: `asked` in that share of the operations, the others in f32. */
void fact_precision(facts *f, const char *asked, double share);

/* Between these calls each facts_begin .. facts_end is one object of a list, for --json. */
void facts_list_begin(const char *key);
void facts_list_end(void);
/* Prints the JSON object of this process, with the last error if the exit status is not 0. */
void facts_print(int status);

/* "3.2 MiB" */
const char *bytes_text(double bytes, char text[32]);

#endif
