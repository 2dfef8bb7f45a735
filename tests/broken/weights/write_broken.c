/* write-broken-weights FOLDER: writes every broken file of less than a megabyte there, and expected.txt with lines
 * "FILE STATUS WORD". */
#include "broken.h"

#include <stdio.h>

static int save(const char *folder, const char *file, const bytes *b)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *f = fopen(path, "wb");
    if (!f)
        return 0;
    const int written = fwrite(b->data, 1, b->size, f) == b->size;
    return fclose(f) == 0 && written;
}

int main(int argc, char **argv)
{
    broken_case c;
    bytes expected = { 0 };
    if (argc != 2) {
        fprintf(stderr, "usage: write-broken-weights FOLDER\n");
        return 2;
    }
    for (int i = 0; broken_at(i, &c); i++) {
        char line[256];
        bytes b = broken_make(&c);
        if (b.size >= 1000000) {
            bytes_free(&b);
            continue;
        }
        snprintf(line, sizeof line, "%s %d %s\n", c.file, c.status, c.word);
        bytes_text(&expected, line);
        if (!save(argv[1], c.file, &b)) {
            fprintf(stderr, "cannot write %s/%s\n", argv[1], c.file);
            return 1;
        }
        bytes_free(&b);
    }
    const int done = save(argv[1], "expected.txt", &expected);
    bytes_free(&expected);
    return done ? 0 : 1;
}
