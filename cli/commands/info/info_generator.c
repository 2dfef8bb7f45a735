/* zenith info and zenith models for the models of `zenith generate`: the parts that were found, and what is missing. */
#include "commands/info/info.h"
#include "ui/report.h"

#include <stdlib.h>
#include <string.h>

static void part_json(json *j, const zn_generator_part_info *p)
{
    json_open(j, NULL, '{');
    json_text(j, "name", p->name);
    if (p->path) {
        json_text(j, "path", p->path);
        json_text(j, "format", p->format);
        if (*p->dtype)
            json_text(j, "dtype", p->dtype);
        json_real(j, "bytes", p->bytes);
        json_integer(j, "files", p->files);
    } else {
        json_null(j, "path");
    }
    json_bool(j, "optional", p->optional);
    json_close(j, '}');
}

/* "gguf Q4_K, 2.3 GiB, folder/qwen.gguf" */
static char *part_text(const zn_generator_part_info *p)
{
    char bytes[32];
    if (!p->path)
        return must_copy(p->optional ? "none (optional)" : "missing");
    char *shards = p->files > 1 ? must_print(" in %d files", p->files) : must_copy("");
    char *text = must_print("%s%s%s%s%s%s, %s", p->format, *p->dtype ? " " : "", p->dtype, p->bytes > 0 ? ", " : "",
                            p->bytes > 0 ? bytes_text(p->bytes, bytes) : "", shards, p->path);
    free(shards);
    return text;
}

static void visit(void *user, const zn_generator_part_info *p)
{
    facts *f = user;
    if (f->json) {
        part_json(&f->out, p);
        return;
    }
    char *text = part_text(p);
    fact_text(f, p->name, text);
    free(text);
}

void generator_facts(facts *f, const char *model)
{
    const zn_generator_files files = { .size = sizeof files, .model = model };
    if (f->json)
        json_open(&f->out, "parts", '[');
    const zn_status status = zn_generator_parts(&files, visit, f);
    if (f->json)
        json_close(&f->out, ']');
    if (status != ZN_OK)
        fact_text(f, "problem", zn_error_text());
    else if (f->json)
        json_null(&f->out, "problem");
    zn_generator_about about = { .size = sizeof about };
    if (zn_generator_describe(&files, &about) == ZN_OK && *about.description)
        fact_text(f, "description", about.description);
}

int generator_info(const options *o, const char *model)
{
    facts f;
    facts_begin(&f, o->json);
    file_facts(&f, model, "generator");
    generator_facts(&f, model);
    facts_end(&f);
    return 0;
}

/* ---- in one line ---- */

typedef struct summary {
    char *found, *missing; /* lists; NULL: empty */
    double bytes;
} summary;

/* Appends to a list and frees the old one. */
static void append(char **list, char *item)
{
    char *longer = *list ? must_print("%s, %s", *list, item) : must_copy(item);
    free(*list);
    free(item);
    *list = longer;
}

static void summarize(void *user, const zn_generator_part_info *p)
{
    summary *s = user;
    s->bytes += p->bytes;
    if (!p->path && !p->optional)
        append(&s->missing, must_copy(p->name));
    else if (p->path && !p->optional && *p->dtype)
        append(&s->found, must_print("%s %s", p->name, p->dtype));
}

char *generator_summary(const char *model)
{
    const zn_generator_files files = { .size = sizeof files, .model = model };
    summary s = { 0 };
    char bytes[32];
    const zn_status status = zn_generator_parts(&files, summarize, &s);
    append(&s.found, must_copy(bytes_text(s.bytes, bytes)));
    char *text = s.missing         ? must_print("missing %s; has %s", s.missing, s.found)
                 : status != ZN_OK ? must_print("unusable (%s); %s", zn_error_text(), s.found)
                                   : must_copy(s.found);
    free(s.found);
    free(s.missing);
    return text;
}
