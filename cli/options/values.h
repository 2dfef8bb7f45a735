/* Strict parsers for option values. Each returns 1 and sets *field, or returns 0 if the text is not valid. */
#ifndef ZN_CLI_VALUES_H
#define ZN_CLI_VALUES_H

int value_text(const char *text, void *field);     /* const char *; not empty */
int value_once(const char *text, void *field);     /* the same, for an option that may be given only once */
int value_any_text(const char *text, void *field); /* const char *; may be empty */
int value_lora(const char *text, void *field);     /* const char *[MOST_LORAS + 1]; "FILE" or "FILE:0.8" is appended */
/* const char *, checked but not converted, so that it is known whether they were given */
int value_seed_text(const char *text, void *field);
int value_guidance(const char *text, void *field);       /* 0..100 */
int value_shift(const char *text, void *field);          /* 0.01..1000 */
int value_eta(const char *text, void *field);            /* from 0 to 1 */
int value_share(const char *text, void *field);          /* double; above 0, up to 1, or "10%" */
int value_factor(const char *text, void *field);         /* 1..16 */
int value_points(const char *text, void *field);         /* 1..1000000 */
int value_strength(const char *text, void *field);       /* above 0, up to 1 */
int value_setting(const char *text, void *field);        /* const char *[MOST_SETTINGS + 1]; "key=value" is appended */
int value_name(const char *text, void *field);           /* const char *[MOST_LISTED + 1]; appended */
int value_minutes(const char *text, void *field);        /* int, 0..1000000 */
int value_threads(const char *text, void *field);        /* int, 0..1024; "auto" is 0 */
int value_steps(const char *text, void *field);          /* int64_t, 1..1e9 */
int value_sampling_steps(const char *text, void *field); /* int64_t, 1..1000 */
int value_runs(const char *text, void *field);           /* int, 1..100000 */
int value_side(const char *text, void *field);           /* int, 8..4096 */
int value_clips(const char *text, void *field);          /* int, 1..1024 */
int value_rate(const char *text, void *field);           /* double, 1..1000 */
int value_count(const char *text, void *field);          /* int, 1..10000 */
int value_batch(const char *text, void *field);          /* int, 1..ZN_BATCH_MOST */
int value_frames(const char *text, void *field);         /* int, 2..10000 */
int value_percent(const char *text, void *field);        /* int, 1..99 */
int value_quality(const char *text, void *field);        /* int, 1..100 */
int value_bits(const char *text, void *field);           /* int, 8 or 16 */
int value_scale(const char *text, void *field);          /* int, 2 or 4 */
int value_tile(const char *text, void *field);           /* int: auto, off or pixels */
int value_size(const char *text, void *field);           /* int[2]: "512" or "640x480" */
int value_memory(const char *text,
                 void *field); /* size_t: "1G", "512M", "1.5GiB", "1048576"; smaller numbers need a unit */
int value_seed(const char *text, void *field);       /* uint64_t */
int value_run_seed(const char *text, void *field);   /* int64_t, 0..9e15, as in recipes */
int value_precision(const char *text, void *field);  /* int holding a zn_precision */
int value_decoding(const char *text, void *field);   /* the same, or fp8 */
int value_generating(const char *text, void *field); /* the same, or int8 */
int value_learning(const char *text, void *field);   /* the same, but only those that training supports */
int value_device(const char *text, void *field);     /* const char *: cpu, cuda or cuda:N */
int value_scaling(const char *text, void *field);    /* const char *: diffusers, raw or raw:FAMILY */
int value_part(const char *text, void *field);       /* int holding a zn_part */
int value_task(const char *text, void *field);       /* int holding a zn_task */
int value_lpips(const char *text, void *field);      /* int holding a zn_lpips */
int value_dtype(const char *text, void *field);      /* int holding a zn_dtype */
int value_sha256(const char *text, void *field);     /* const char *: 64 hexadecimal digits */
int value_background(const char *text, void *field); /* uint8_t[3]: "RRGGBB" or "#RRGGBB" */

/* The amounts of an edit, "-0.3,0,0.3", each from -MOST_AMOUNT to MOST_AMOUNT. Returns how many there are; 0: one is
 * not valid, or there are more than `most`. */
enum { MOST_AMOUNT = 100 };
int parse_amounts(const char *text, double *amounts, int most);

#endif
