/* What the path of a file says about it. */
#ifndef ZN_CLI_EXTENSIONS_H
#define ZN_CLI_EXTENSIONS_H

const char *base_name(const char *path); /* what follows the last '/' */
/* True if the name ends with "." and one of these space-separated extensions, in upper or lower case. */
int has_extension(const char *path, const char *extensions);
int is_image_file(const char *path); /* true if the extension is that of a readable image format */
int is_video_file(const char *path);

#endif
