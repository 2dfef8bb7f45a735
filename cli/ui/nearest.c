/* "did you mean": the nearest word of a list by edit distance. */
#include "ui/options.h"

#include <string.h>

enum { LONGEST = 32 };

/* Insertions, deletions and replacements that turn a into b; both at most LONGEST long. */
static int distance(const char *a, const char *b)
{
    const int n = (int)strlen(a), m = (int)strlen(b);
    int row[LONGEST + 1];
    for (int j = 0; j <= m; j++)
        row[j] = j;
    for (int i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            best = row[j] + 1 < best ? row[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[m];
}

const char *nearest_word(const char *word, const char *const *list, int count)
{
    const size_t length = strlen(word);
    if (length < 2 || length > LONGEST)
        return NULL;
    const char *best = NULL;
    int best_distance = (length < 6 ? 1 : (int)length / 3) + 1; /* one more than is allowed */
    for (int i = 0; i < count; i++) {
        if (strlen(list[i]) > LONGEST)
            continue;
        const int d = strncmp(word, list[i], length) ? distance(word, list[i]) : 0;
        if (d < best_distance) {
            best_distance = d;
            best = list[i];
        }
    }
    return best;
}
