/* "did you mean": the nearest word of a list by edit distance. */
#include "options/options.h"

#include <string.h>

enum { LONGEST = 32, MOST_NAMES = 64 };

static int min(int a, int b) { return a < b ? a : b; }

/* Number of insertions, deletions, replacements and swaps of neighbours that turn a into b. Both have at most LONGEST
 * characters. */
static int distance(const char *a, const char *b)
{
    const int n = (int)strlen(a), m = (int)strlen(b);
    int d[LONGEST + 1][LONGEST + 1];
    for (int i = 0; i <= n; i++)
        for (int j = 0; j <= m; j++) {
            if (!i || !j) {
                d[i][j] = i + j;
                continue;
            }
            d[i][j] = min(d[i - 1][j - 1] + (a[i - 1] != b[j - 1]), min(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = min(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[n][m];
}

const char *nearest_word(const char *word, const char *const *list, int count)
{
    const size_t length = strlen(word);
    if (length < 2 || length > LONGEST)
        return NULL;
    const char *best = NULL;
    int best_distance = (length < 6 ? 1 : (int)length / 3) + 1; /* one more than the maximum */
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

const char *nearest_name(const char *word, const char *(*name_of)(int index, const char **description))
{
    const char *names[MOST_NAMES], *description;
    int count = 0;
    while (count < MOST_NAMES && (names[count] = name_of(count, &description)) != NULL)
        count++;
    return nearest_word(word, names, count);
}
