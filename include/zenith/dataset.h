/* Data sets: pictures to train on or to judge by, as a folder (with subfolders) or packed into one .lmdb file.
 *
 *     const char *folders[] = { "photos" };
 *     zn_dataset_build_options o = { .inputs = folders, .input_count = 1, .output = "photos.lmdb", .size = 256 };
 *     zn_dataset_build_result r;
 *     zn_dataset_build(&o, &r);
 *     printf("%lld pictures, %lld skipped\n", (long long)r.pictures, (long long)r.skipped);
 *
 * Which pictures are held out from training depends on a hash of their names alone; the crops of one photo always fall
 * on the same side. */
#ifndef ZN_PUBLIC_DATASET_H
#define ZN_PUBLIC_DATASET_H

#include <zenith/image.h>
#include <zenith/ranks.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Told of each picture that could not be used; why is one sentence that names it. */
typedef void (*zn_skipped_fn)(void *user, const char *name, const char *why);

/* Without crops a photo becomes one picture: its middle square, scaled down to size x size. With crops it becomes that
 * many: squares at random places, their sides between size and the photo's shorter side (small ones more often), scaled
 * down to size x size. Nothing is scaled up: of a photo that is smaller, what there is is cut at its own scale, and
 * one that is smaller both ways gives one picture, itself. Crops depend on the seed and the photo's name alone. The
 * result has the same bytes for any number of threads and ranks. */
typedef struct zn_dataset_build_options {
    const char *const *inputs; /* folders and data sets */
    int input_count;
    const char *output;           /* NAME.lmdb; appears whole or not at all, and replaces what is there */
    int size;                     /* side of the pictures; 0: 256 */
    int crops;                    /* of each photo, at random; 0: one, the middle */
    const char *format;           /* how pictures are stored: "jpeg", "png" or "webp"; NULL: jpeg */
    zn_image_write_options write; /* for the format; quality 0: 95 */
    uint64_t seed;
    int threads;             /* 0: one for each CPU */
    zn_ranks *ranks;         /* processes that share the photos; rank 0 writes and gets the result. NULL: alone */
    zn_skipped_fn skipped;   /* may be NULL; called from the calling thread, in the order of the photos, on rank 0 */
    zn_progress_fn progress; /* may be NULL */
    void *user;
} zn_dataset_build_options;

typedef struct zn_dataset_build_result {
    int64_t photos;   /* that were used */
    int64_t skipped;  /* that could not be read */
    int64_t pictures; /* in the set */
    int64_t bytes;    /* of the file */
    double seconds;
} zn_dataset_build_result;

/* Photos that cannot be read are skipped; if none can, or the file cannot be written, nothing is left behind. */
ZN_API ZN_MUST_USE zn_status zn_dataset_build(const zn_dataset_build_options *options, zn_dataset_build_result *out);

/* What is in a data set. Every picture is read, so this also finds those that cannot be. */
typedef struct zn_dataset_info_options {
    int held_out;            /* percent; 0: 2, as recipes have it */
    int threads;             /* 0: one for each CPU */
    zn_skipped_fn skipped;   /* may be NULL */
    zn_progress_fn progress; /* may be NULL */
    void *user;
} zn_dataset_info_options;

typedef struct zn_dataset_info {
    const char *kind; /* "folder" or "lmdb" */
    int64_t pictures; /* that can be read */
    int64_t unreadable;
    int64_t bytes;                  /* on the disk */
    int64_t pixels;                 /* of all pictures together */
    int least_width, least_height;  /* of any picture */
    int most_width, most_height;    /* of any picture */
    int64_t held_out, for_training; /* of the pictures that can be read */
    int held_out_percent;
} zn_dataset_info;

ZN_API ZN_MUST_USE zn_status zn_dataset_examine(const char *path, const zn_dataset_info_options *options,
                                                zn_dataset_info *out);

/* A contact sheet: pictures chosen at random by the seed, each scaled down to fit a square, in the order of the set.
 * One of more than ZN_IMAGE_MAX_PIXELS is refused (ZN_ELIMIT). */
typedef struct zn_dataset_sheet_options {
    int count; /* at most; 0: 24 */
    int side;  /* of a square, pixels; 0: 160 */
    uint64_t seed;
    zn_skipped_fn skipped; /* may be NULL; such a square stays empty */
    void *user;
} zn_dataset_sheet_options;

ZN_API ZN_MUST_USE zn_status zn_dataset_sheet(const char *path, const zn_dataset_sheet_options *options,
                                              zn_image **out);

#ifdef __cplusplus
}
#endif
#endif
