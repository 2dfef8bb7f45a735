/* Published weights: a table of models with the addresses of their files, and fetching them.
 *
 *     const zn_published *p = zn_published_find("taesd");
 *     for (int i = 0; i < p->file_count; i++)
 *         zn_download(&(zn_download_options){ .size = sizeof(zn_download_options), .url = p->files[i].url,
 *                                             .path = path_of(p->files[i].path), .check = p->files[i].check }, NULL);
 *
 * Nothing is fetched except by zn_download. It needs a build with libcurl, which is opened at the first call; otherwise
 * zn_download fails with ZN_EUNSUPPORTED. */
#ifndef ZN_PULL_H
#define ZN_PULL_H

#include <stddef.h>
#include <stdint.h>
#include <zenith/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_published_file {
    const char *url;
    const char *path;  /* below the folder of models: "taesd_encoder.pth", "z-image-turbo/ae.safetensors" */
    int64_t bytes;     /* approximate unless exact */
    int exact;         /* non-zero: `bytes` is the size of the file */
    const char *check; /* "sha256:HEX", or "git:HEX" for the blob of a git repository; NULL: not published */
} zn_published_file;

typedef struct zn_published {
    const char *name; /* for -m */
    const char *description;
    const char *licence;
    const char *used_by; /* commands: "encode, decode" */
    const zn_published_file *files;
    int file_count;
} zn_published;

/* Model number `index` of the table; NULL after the last. */
ZN_API const zn_published *zn_published_at(int index);
/* NULL if there is none of this name. */
ZN_API const zn_published *zn_published_find(const char *name);

/* Zero means the default in every field but url and path. */
typedef struct zn_download_options {
    size_t size;       /* sizeof, see zn_options */
    const char *url;   /* http or https; redirects are followed, from https only to https */
    const char *path;  /* of the file; missing folders are made */
    const char *check; /* as in zn_published_file. NULL: a SHA-256 that the server states, else only the size */
    const char *token; /* sent to the host of the url, and to no other */
    int replace;       /* non-zero: fetch the file even if it exists, whatever its content */
    zn_progress_fn progress;
    void *user;
} zn_download_options;

typedef struct zn_download_result {
    int64_t bytes;   /* of the file */
    int64_t resumed; /* of these, fetched by an earlier call */
    int existed;     /* non-zero: the file existed, and nothing was fetched */
    int checked;     /* non-zero: its hash was compared */
} zn_download_result;

/* Fetches a file. Until it is complete and checked, it is PATH.part, which the next call continues; then it is renamed.
 * A broken connection is resumed a few times. A file that exists is kept if its hash is right, or if there is none to
 * compare; with another hash it is ZN_EFORMAT. ZN_ENOTFOUND: the server has no such file. ZN_EFORMAT: wrong hash; the
 * part is removed. out may be NULL. */
ZN_API ZN_MUST_USE zn_status zn_download(const zn_download_options *options, zn_download_result *out);

/* Stores the folder of the user's models in path[size]: $XDG_DATA_HOME/zenith/models or
 * $HOME/.local/share/zenith/models. ZN_ENOTFOUND if neither variable is set. */
ZN_API ZN_MUST_USE zn_status zn_models_folder(char *path, size_t size);

#ifdef __cplusplus
}
#endif
#endif
