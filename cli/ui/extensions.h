/* What a file is, by its name. */
#ifndef ZN_CLI_EXTENSIONS_H
#define ZN_CLI_EXTENSIONS_H

/* True if the name ends with "." and one of these space-separated extensions, in upper or lower case. */
int has_extension(const char *path, const char *extensions);
int is_image_file(const char *path); /* true if the extension is that of a readable image format */
int is_video_file(const char *path);

#endif
