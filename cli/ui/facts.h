/* A list of facts. It is printed as lines "key  value" for people, or as members of one JSON object for scripts, so
 * commands state each fact once. facts_print prints the JSON object at the end of the command.
 *
 *     facts f;
 *     facts_begin(&f, o->json);
 *     fact_text(&f, "model", "taesd");
 *     fact_real(&f, "psnr", 31.2, 2, " dB");
 *     facts_end(&f);
 *
 * Nested JSON is written directly to f.out if f.json is set. */
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
void fact_unsigned(facts *f, const char *key, uint64_t value);
void fact_bool(facts *f, const char *key, int value); /* "yes" or "no" in text */
/* decimals and unit are used in text only. JSON gets the plain number, or null if it is not finite. */
void fact_real(facts *f, const char *key, double value, int decimals, const char *unit);
void fact_bytes(facts *f, const char *key, int64_t value);
/* psnr, ssim, max_difference. For equal images psnr is null in JSON and "identical" is true. */
void fact_difference(facts *f, const zn_image_difference *d);
/* The model as reports call it (reported_model). */
void fact_model_name(facts *f, const zn_model_info *info);
/* The precision used: `asked` for this share of the operations, f32 for the others. */
void fact_precision(facts *f, const char *asked, double share);

/* Between these calls, each facts_begin .. facts_end is one object of a JSON list. */
void facts_list_begin(const char *key);
void facts_list_end(void);
/* Prints the JSON object of this process, with the last error if the exit status is not 0. */
void facts_print(int status);

/* "3.2 MiB" */
const char *bytes_text(double bytes, char text[32]);

#endif
