/* Status codes and error text.
 *
 *     zn_image *im;
 *     if (zn_image_read("in.png", NULL, &im) != ZN_OK)
 *         fprintf(stderr, "%s\n", zn_error_text());
 *
 * Every function that can fail returns a zn_status; the text is one sentence on what went wrong. */
#ifndef ZN_STATUS_H
#define ZN_STATUS_H

#if defined(__GNUC__)
#define ZN_API      __attribute__((visibility("default")))
#define ZN_MUST_USE __attribute__((warn_unused_result))
#else
#define ZN_API
#define ZN_MUST_USE
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The values never change: programs may store them. */
typedef enum zn_status {
    ZN_OK = 0,
    ZN_ENOMEM = -1,       /* out of memory */
    ZN_EIO = -2,          /* the system refused a read or a write */
    ZN_EFORMAT = -3,      /* a file is damaged or inconsistent */
    ZN_EUNSUPPORTED = -4, /* valid, but not supported by this build */
    ZN_ESHAPE = -5,       /* shapes do not match */
    ZN_EINVALID = -6,     /* an argument is out of range */
    ZN_ENOTFOUND = -7,    /* no such file, model or tensor */
    ZN_ENUMERIC = -8,     /* NaN or infinity appeared */
    ZN_ECANCELLED = -9,   /* the progress callback requested it */
    ZN_ELIMIT = -10       /* exceeds a safety limit */
} zn_status;

/* Text of the last failure in the calling thread, valid until that thread's next failure. Never NULL. */
ZN_API const char *zn_error_text(void);

/* Called during long work with a fraction in [0,1]; return non-zero to cancel (the call then returns ZN_ECANCELLED). */
typedef int (*zn_progress_fn)(void *user, double fraction);

#ifdef __cplusplus
}
#endif
#endif
