/* jsoncheck [-p] KEY... < TEXT: succeeds if the input is exactly one JSON object (RFC 8259, then a newline) that has
 * these members; with -p prints the value of each as it is written. Says on stderr what is wrong. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 64, MEMBERS = 256 };

typedef struct member {
    const char *key, *value;
    size_t key_length, value_length;
} member;

static const char *at;
static const char *problem;
static member members[MEMBERS];
static int member_count;

static int bad(const char *why)
{
    if (!problem)
        problem = why;
    return 0;
}

static void space(void)
{
    while (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')
        at++;
}

static int string(void)
{
    if (*at++ != '"')
        return bad("a string must start here");
    while (*at != '"') {
        if ((unsigned char)*at < 32)
            return bad("control character or end inside a string");
        if (*at == '\\') {
            at++;
            if (*at == 'u') {
                for (int i = 1; i <= 4; i++)
                    if (!isxdigit((unsigned char)at[i]))
                        return bad("bad \\u escape");
                at += 4;
            } else if (!*at || !strchr("\"\\/bfnrt", *at)) {
                return bad("bad escape");
            }
        }
        at++;
    }
    at++;
    return 1;
}

static int digits(void)
{
    if (!isdigit((unsigned char)*at))
        return bad("a digit must be here");
    while (isdigit((unsigned char)*at))
        at++;
    return 1;
}

static int number(void)
{
    at += *at == '-';
    if (*at == '0')
        at++;
    else if (!digits())
        return 0;
    if (*at == '.' && (at++, !digits()))
        return 0;
    if (*at == 'e' || *at == 'E') {
        at++;
        at += *at == '+' || *at == '-';
        return digits();
    }
    return 1;
}

static int value(int depth);

/* An object or an array, whose members are kept when it is the outermost object. */
static int list(int depth, char close)
{
    at++;
    space();
    if (*at == close)
        return at++, 1;
    for (;;) {
        member m = { 0 };
        if (close == '}') {
            space();
            m.key = at + 1;
            if (!string())
                return 0;
            m.key_length = (size_t)(at - m.key - 1);
            space();
            if (*at++ != ':')
                return bad("a colon must be here");
        }
        space();
        m.value = at;
        if (!value(depth + 1))
            return 0;
        m.value_length = (size_t)(at - m.value);
        if (depth == 0 && member_count < MEMBERS)
            members[member_count++] = m;
        space();
        if (*at == close)
            return at++, 1;
        if (*at++ != ',')
            return bad("a comma must be here");
    }
}

static int value(int depth)
{
    static const char *const words[] = { "true", "false", "null" };
    if (depth > DEPTH)
        return bad("nested too deep");
    if (*at == '{')
        return list(depth, '}');
    if (*at == '[')
        return list(depth, ']');
    if (*at == '"')
        return string();
    for (int i = 0; i < 3; i++)
        if (!strncmp(at, words[i], strlen(words[i])))
            return at += strlen(words[i]), 1;
    return number();
}

static const member *find(const char *key)
{
    for (int i = 0; i < member_count; i++)
        if (members[i].key_length == strlen(key) && !memcmp(members[i].key, key, members[i].key_length))
            return &members[i];
    return NULL;
}

int main(int argc, char **argv)
{
    static char text[1 << 20];
    const size_t size = fread(text, 1, sizeof text - 1, stdin);
    at = text;
    if (strlen(text) != size || *at != '{')
        bad("the input must be one object");
    else if (value(0) && (at[0] != '\n' || at[1]))
        bad("something follows the object");
    if (problem) {
        fprintf(stderr, "jsoncheck: byte %zu: %s\n", (size_t)(at - text), problem);
        return 1;
    }
    const int print = argc > 1 && !strcmp(argv[1], "-p");
    for (int i = 1 + print; i < argc; i++) {
        const member *m = find(argv[i]);
        if (!m) {
            fprintf(stderr, "jsoncheck: no member '%s'\n", argv[i]);
            return 1;
        }
        if (print)
            printf("%.*s\n", (int)m->value_length, m->value);
    }
    return 0;
}
