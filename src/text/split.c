/* The rules of zn_split_pattern, one function for each alternative, tried in order. Each returns the number of code
 * points that it matches, or 0. */
#include "text/split.h"

#include "text/unicode.h"

const char zn_split_pattern[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
                                " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

static bool is_break(uint32_t c) { return c == '\r' || c == '\n'; }
static bool is_other(uint32_t c) { return !zn_is_space(c) && !zn_is_letter(c) && !zn_is_number(c); }

/* End of the run of characters of this kind that starts at `at`. */
static size_t run(const uint32_t *t, size_t at, size_t n, bool (*kind)(uint32_t))
{
    while (at < n && kind(t[at]))
        at++;
    return at;
}

static uint32_t lower(uint32_t c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; }

static size_t contraction(const uint32_t *t, size_t n)
{
    if (n < 2 || t[0] != '\'')
        return 0;
    const uint32_t a = lower(t[1]), b = n > 2 ? lower(t[2]) : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return 2;
    return (b == 'e' && (a == 'r' || a == 'v')) || (a == 'l' && b == 'l') ? 3 : 0;
}

static size_t word(const uint32_t *t, size_t n)
{
    const size_t before = !zn_is_letter(t[0]) && !zn_is_number(t[0]) && !is_break(t[0]);
    const size_t end = run(t, before, n, zn_is_letter);
    return end > before ? end : 0;
}

static size_t number(const uint32_t *t, size_t n)
{
    (void)n;
    return zn_is_number(t[0]);
}

static size_t signs(const uint32_t *t, size_t n)
{
    const size_t before = t[0] == ' ', end = run(t, before, n, is_other);
    return end > before ? run(t, end, n, is_break) : 0;
}

static size_t lines(const uint32_t *t, size_t n)
{
    size_t end = run(t, 0, n, zn_is_space);
    while (end && !is_break(t[end - 1]))
        end--;
    return end;
}

/* The last space of a run before a word belongs to the word. */
static size_t spaces(const uint32_t *t, size_t n)
{
    const size_t end = run(t, 0, n, zn_is_space);
    return end < n && end > 1 ? end - 1 : end;
}

size_t zn_split_first(const uint32_t *text, size_t count)
{
    static size_t (*const rules[])(const uint32_t *, size_t) = { contraction, word, number, signs, lines, spaces };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const size_t length = rules[i](text, count);
        if (length)
            return length;
    }
    return 1; /* not reached: the rules cover every character */
}
