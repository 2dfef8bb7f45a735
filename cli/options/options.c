/* Parses the options of option_table.c: long options with a space or '='; short options alone, clustered or with the
 * value attached; "--" before names that start with a dash. */
#include "options/options.h"

#include "commands.h"
#include "files/standard.h"
#include "options/values.h"
#include "ui/report.h"

#include <stdlib.h>
#include <string.h>

static int accepts(const option *t, const command *c) { return t->common == HARMLESS || (t->commands & c->bit); }

static const option *find_long(const command *c, const char *name, size_t length)
{
    for (int i = 0; i < option_count; i++)
        if (accepts(&option_table[i], c) && strlen(option_table[i].name) == length &&
            !memcmp(option_table[i].name, name, length))
            return &option_table[i];
    return NULL;
}

static const option *find_short(const command *c, char letter)
{
    for (int i = 0; i < option_count; i++)
        if (accepts(&option_table[i], c) && option_table[i].letter == letter)
            return &option_table[i];
    return NULL;
}

/* For words with spaces, such as "-5 degrees": options of generate have none, prompts do. */
static const char *dash_advice(const command *c, const char *word)
{
    return c->bit == CMD_GENERATE && strchr(word, ' ') ? "; put -- before a prompt that begins with a dash" : "";
}

static int unknown_long(const command *c, const char *name, size_t length)
{
    for (int i = 0; i < option_count; i++) {
        const option *t = &option_table[i];
        if (t->common && strlen(t->name) == length && !memcmp(t->name, name, length))
            return usage_error(c->name, "--%s does not apply here", t->name);
    }
    const char **names = must_alloc(NULL, (size_t)option_count * sizeof *names);
    int count = 0;
    for (int i = 0; i < option_count; i++)
        if (accepts(&option_table[i], c))
            names[count++] = option_table[i].name;
    char *word = must_print("%.*s", (int)length, name);
    const char *near = nearest_word(word, names, count);
    const int status = near ? usage_error(c->name, "unknown option '--%s', did you mean '--%s'?", word, near)
                            : usage_error(c->name, "unknown option '--%s'%s", word, dash_advice(c, word));
    free(word);
    free(names);
    return status;
}

/* True for "-o" or "--output=x": a forgotten value, hardly a name; "--image=-o" is for those. */
static int is_option(const command *c, const char *word)
{
    return word[0] == '-' && (word[1] == '-' ? find_long(c, word + 2, strcspn(word + 2, "=")) != NULL
                                             : word[1] && !word[2] && find_short(c, word[1]) != NULL);
}

/* Stores one option. value is NULL if none was attached. *taken is set if the next word was used as the value. */
static int store(options *o, const option *t, const char *value, const char *next, int *taken)
{
    void *field = (char *)o + t->field;
    *taken = 0;
    if (!t->parse) {
        *(int *)field = 1;
        return 0;
    }
    if (!value && value_is_optional(t)) {
        value = "";
    } else if (!value) {
        if (!next)
            return usage_error(o->command->name, "--%s needs %s", t->name, t->wants);
        if ((t->parse == value_text || t->parse == value_once) && is_option(o->command, next))
            return usage_error(o->command->name, "--%s needs %s, but the option '%s' follows", t->name, t->wants, next);
        value = next;
        *taken = 1;
    }
    if (t->parse == value_once && *(const char *const *)field)
        return usage_error(o->command->name, "--%s is given twice, as '%s' and '%s': one at a time", t->name,
                           *(const char *const *)field, value);
    if (!t->parse(value, field))
        return usage_error(o->command->name, "--%s needs %s, not '%s'", t->name, t->wants, value);
    return 0;
}

static int parse_long(options *o, const char *word, const char *next, int *taken)
{
    const char *name = word + 2, *equals = strchr(name, '=');
    const size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const option *t = find_long(o->command, name, length);
    if (!t)
        return unknown_long(o->command, name, length);
    if (equals && !t->parse)
        return usage_error(o->command->name, "--%s takes no value", t->name);
    return store(o, t, equals ? equals + 1 : NULL, next, taken);
}

/* "-v", "-vq", "-oOUT", "-o=OUT", "-o OUT" */
static int parse_short(options *o, const char *word, const char *next, int *taken)
{
    *taken = 0;
    for (const char *c = word + 1; *c; c++) {
        const option *t = find_short(o->command, *c);
        if (!t)
            return usage_error(o->command->name, "unknown option '-%c'%s", *c, dash_advice(o->command, word));
        const int last = !t->parse ? 0 : 1;
        const char *value = c[1] == '=' ? c + 2 : c + 1;
        const int status = store(o, t, last && c[1] ? value : NULL, next, taken);
        if (status || last)
            return status;
    }
    return 0;
}

static int check_files(const options *o)
{
    const command *c = o->command;
    if (o->help || o->version)
        return 0;
    if (o->file_count < c->least)
        return usage_error(c->name, "needs %s: zenith %s %s", c->least == 1 ? "a file" : "two files", c->name,
                           c->arguments);
    if (c->most >= 0 && o->file_count > c->most)
        return usage_error(c->name, "unexpected argument '%s'%s", o->files[c->most],
                           find_long(c, "data", 4) ? ": --data names the images or the data set"
                           : c->most == 1          ? ": it takes one file"
                           : c->most == 2          ? ": it takes two files"
                                                   : "");
    return 0;
}

int options_parse(options *o, const command *c, int argc, char **argv)
{
    *o = (options){ .command = c, .dtype = -1, .run_seed = -1, .keep = -1, .grace = -1, .part = ZN_DECODER };
    o->files = must_alloc(NULL, ((size_t)argc + 1) * sizeof *o->files);
    int only_files = 0, status = 0;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
        int taken = 0;
        if (only_files || word[0] != '-' || !word[1])
            o->files[o->file_count++] = word;
        else if (!strcmp(word, "--"))
            only_files = 1;
        else if (word[1] == '-')
            status = parse_long(o, word, next, &taken);
        else
            status = parse_short(o, word, next, &taken);
        if (status)
            return status;
        i += taken;
    }
    status = check_files(o);
    /* the second file of convert is written, not read; the argument of generate is a prompt */
    const int inputs = c->bit == CMD_GENERATE ? 0 : c->bit == CMD_CONVERT && o->file_count ? 1 : o->file_count;
    for (int i = 0; i < inputs && !status && !o->help && !o->version; i++)
        if (!(o->files[i] = !strcmp(o->files[i], "-") ? standard_input() : keep_pipe(o->files[i])))
            status = EXIT_FAILURE;
    return status;
}

int keeps_metadata(const options *o) { return !o->strip && !o->compare; }
