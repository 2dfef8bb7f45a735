/* Data sets: images for training or evaluation, as a folder (with subfolders) or packed into one .lmdb file.
 *
 *     const char *folders[] = { "photos" };
 *     zn_dataset_build_options o = { .inputs = folders, .input_count = 1, .output = "photos.lmdb", .size = 256 };
 *     zn_dataset_build_result r;
 *     zn_dataset_build(&o, &r);
 *     printf("%lld images, %lld skipped\n", (long long)r.pictures, (long long)r.skipped);
 *
 * Only a hash of an image's name decides whether it is held out from training; crops of one photo stay together. */
#ifndef ZN_PUBLIC_DATASET_H
#define ZN_PUBLIC_DATASET_H

#include <zenith/film.h>
#include <zenith/image.h>
#include <zenith/ranks.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Called for each image that could not be used; why is one sentence that names it. Strings are valid during the call.
 */
typedef void (*zn_skipped_fn)(void *user, const char *name, const char *why);
/* Called for a video with faults. */
typedef void (*zn_film_faults_fn)(void *user, const char *name, const zn_film_faults *faults);

/* With clips, inputs are video files and folders. Each video file in a folder or its subfolders is a video (.mp4, .m4v,
 * .mkv, .webm, .mov, .avi, .gif), and so is each folder that contains images, its frames in numeric order. A video is
 * divided into clips of `clips` successive frames from its beginning; frames at its end that do not fill a clip are
 * dropped. A clip is stored as one image: its frames one below the other, scaled down until their shorter side is size.
 *
 * Without crops a photo gives one image: its centre square, scaled down to size x size. With crops it gives that many
 * squares at random positions, with sides between size and the photo's shorter side (small ones more often), scaled
 * down to size x size. Nothing is scaled up: smaller photos are cropped at their own scale, and a photo smaller than
 * size in both directions gives one image, itself. Crops depend only on the seed and the photo's name. The result has
 * the same bytes for any number of threads and ranks. */
typedef struct zn_dataset_build_options {
    const char *const *inputs; /* folders and data sets; with clips, videos and folders of videos or frames */
    int input_count;
    const char *output;           /* NAME.lmdb; appears whole or not at all, and replaces an existing file */
    int size;                     /* side of the images; 0: 256 */
    int crops;                    /* random crops of each photo; 0: one, the centre */
    const char *format;           /* of the stored images: "jpeg", "png" or "webp"; NULL: jpeg */
    zn_image_write_options write; /* for the format; quality 0: 95 */
    int clips;                    /* frames of each clip, 2 or more; 0: images */
    double rate;                  /* with clips: frames taken of each second of a video; 0: all */
    uint64_t seed;
    int threads;              /* 0: one for each CPU */
    zn_ranks *ranks;          /* processes that share the work; rank 0 writes and gets the result. NULL: one process */
    zn_skipped_fn skipped;    /* may be NULL; called from the calling thread, in the order of the photos, on rank 0 */
    zn_film_faults_fn faults; /* the same for videos that are used in spite of faults */
    zn_progress_fn progress;  /* may be NULL */
    void *user;
} zn_dataset_build_options;

typedef struct zn_dataset_build_result {
    int64_t photos;   /* used; with clips, videos and folders */
    int64_t skipped;  /* unreadable */
    int64_t pictures; /* in the set */
    int64_t bytes;    /* of the file */
    double seconds;
    int64_t unrelated; /* with clips: of `photos`, those whose successive images differ as unrelated photos do */
} zn_dataset_build_result;

/* Unreadable photos are skipped; if none can be read, or the file cannot be written, no file is left. */
ZN_API ZN_MUST_USE zn_status zn_dataset_build(const zn_dataset_build_options *options, zn_dataset_build_result *out);

/* Describes a data set. Every image is decoded, so this also finds unreadable ones. */
typedef struct zn_dataset_info_options {
    int held_out;            /* percent; 0: 2, the default of recipes */
    int threads;             /* 0: one for each CPU */
    zn_skipped_fn skipped;   /* may be NULL */
    zn_progress_fn progress; /* may be NULL */
    void *user;
} zn_dataset_info_options;

typedef struct zn_dataset_info {
    const char *kind; /* "folder" or "lmdb" */
    int64_t pictures; /* readable; of a set of clips, clips */
    int64_t unreadable;
    int64_t bytes;                  /* on disk */
    int64_t pixels;                 /* of all images together */
    int least_width, least_height;  /* of any image; of clips, of one frame */
    int most_width, most_height;    /* likewise */
    int64_t held_out, for_training; /* of the readable images */
    int held_out_percent;
    int least_frames, most_frames; /* of any clip; 1 for images */
} zn_dataset_info;

ZN_API ZN_MUST_USE zn_status zn_dataset_examine(const char *path, const zn_dataset_info_options *options,
                                                zn_dataset_info *out);

/* A contact sheet: images chosen at random by the seed, each scaled down to fit a square, in the order of the set. The
 * square of a clip has up to four frames, row by row, the first and the last among them.
 * A sheet of more than ZN_IMAGE_MAX_PIXELS is refused (ZN_ELIMIT). */
typedef struct zn_dataset_sheet_options {
    int count; /* at most; 0: 24 */
    int side;  /* of a square, pixels; 0: 160 */
    uint64_t seed;
    zn_skipped_fn skipped; /* may be NULL; the square of a skipped image stays empty */
    void *user;
} zn_dataset_sheet_options;

ZN_API ZN_MUST_USE zn_status zn_dataset_sheet(const char *path, const zn_dataset_sheet_options *options,
                                              zn_image **out);

#ifdef __cplusplus
}
#endif
#endif
