/* Data sets: images by number, from a folder or from an LMDB file.
 *
 *     zn_dataset *d;
 *     ZN_TRY(zn_dataset_open("photos", &d));
 *     ZN_TRY(zn_dataset_read(d, 7, &image));
 *     zn_dataset_close(d);
 *
 * Reading is safe from several threads; several processes may read one LMDB file. Which images are held out for
 * evaluation depends on a hash of their names alone, so it stays the same when images are added. */
#ifndef ZN_IO_DATASET_H
#define ZN_IO_DATASET_H

#include <stdbool.h>
#include <zenith/image.h>

typedef struct zn_dataset zn_dataset;

ZN_MUST_USE zn_status zn_dataset_open(const char *path, zn_dataset **out);
/* The names of the video files (also GIFs) in a folder and its subfolders, maybe none; they cannot be read as images.
 */
ZN_MUST_USE zn_status zn_dataset_list_films(const char *path, zn_dataset **out);
/* Whether this is the name of a video file, or of a GIF. */
bool zn_dataset_is_film(const char *path);
void zn_dataset_close(zn_dataset *d);

int64_t zn_dataset_count(const zn_dataset *d);
const char *zn_dataset_name(const zn_dataset *d, int64_t index); /* path inside the folder, or the record's name */
ZN_MUST_USE zn_status zn_dataset_read(const zn_dataset *d, int64_t index, zn_image **out);

/* Pixels of an image by its header; 0: not known. */
int64_t zn_dataset_pixels(const zn_dataset *d, int64_t index);

/* Frames of a record: those of a clip are stored as one image, one below the other, and its name ends in "#N@FRAMES". 1
 * for any other image. */
int zn_dataset_frames(const zn_dataset *d, int64_t index);

int64_t zn_dataset_bytes(const zn_dataset *d); /* on the disk */

/* True for about `percent` of a hundred images. */
bool zn_dataset_held_out(const zn_dataset *d, int64_t index, int percent);

/* A kind of data set: opens a path it knows, or says that it is not its own. */
typedef struct zn_dataset_kind {
    const char *name;
    bool (*is_mine)(const char *path);
    zn_status (*open)(const char *path, zn_dataset *d);
    zn_status (*read)(const zn_dataset *d, int64_t index, zn_image **out);
    int64_t (*pixels)(const zn_dataset *d, int64_t index);
    int64_t (*bytes)(const zn_dataset *d);
    void (*close)(zn_dataset *d);
} zn_dataset_kind;

struct zn_dataset {
    const zn_dataset_kind *kind;
    char *path;
    char **names;
    int64_t count;
    size_t capacity;
    void *state; /* the kind's own */
};

/* Appends a name; for kinds. */
ZN_MUST_USE zn_status zn_dataset_add(zn_dataset *d, const char *name);

/* Writes image files into an LMDB file. Crops of one image are called "SOURCE#N": they are held out together. */
typedef struct zn_dataset_writer zn_dataset_writer;
/* On failure too, *out must be freed. ZN_EIO also while another process writes the same file. */
ZN_MUST_USE zn_status zn_dataset_writer_open(const char *path, zn_dataset_writer **out);
ZN_MUST_USE zn_status zn_dataset_writer_add(zn_dataset_writer *w, const char *name, const void *bytes, size_t size);
/* Commits; the file appears whole or not at all. bytes (may be NULL): its size. */
ZN_MUST_USE zn_status zn_dataset_writer_commit(zn_dataset_writer *w, int64_t *bytes);
void zn_dataset_writer_free(zn_dataset_writer *w);

#endif
