/* zenith pull: fetches published weights, or lists them. */
#include "commands.h"
#include "files/files.h"
#include "ui/facts.h"
#include "ui/progress.h"
#include "ui/report.h"

#include <stdlib.h>
#include <string.h>

/* ---- the list ---- */

static double bytes_of(const zn_published *p)
{
    double bytes = 0;
    for (int i = 0; i < p->file_count; i++)
        bytes += (double)p->files[i].bytes;
    return bytes;
}

static void list_json(json *j, const zn_published *p)
{
    json_open(j, NULL, '{');
    json_text(j, "name", p->name);
    json_text(j, "description", p->description);
    json_text(j, "licence", p->licence);
    json_text(j, "used_by", p->used_by);
    json_open(j, "files", '[');
    for (int i = 0; i < p->file_count; i++) {
        const zn_published_file *f = &p->files[i];
        json_open(j, NULL, '{');
        json_text(j, "path", f->path);
        json_text(j, "url", f->url);
        json_integer(j, "bytes", f->bytes);
        json_bool(j, "bytes_exact", f->exact);
        if (f->check)
            json_text(j, "check", f->check);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_close(j, '}');
}

static void list_files(const zn_published *p)
{
    for (int i = 0; i < p->file_count; i++) {
        const zn_published_file *f = &p->files[i];
        char size[32];
        say("    %s, %s%s\n      %s\n", f->path, f->exact ? "" : "about ", bytes_text((double)f->bytes, size), f->url);
        if (f->check)
            say("      %s\n", f->check);
    }
}

static int unknown_model(const char *name)
{
    const char *names[64];
    int count = 0;
    for (; count < 64 && zn_published_at(count); count++)
        names[count] = zn_published_at(count)->name;
    const char *near = nearest_word(name, names, count);
    complain("there is no published model '%s'%s%s%s; zenith pull --list shows them, and --from fetches any other",
             name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    return EXIT_FAILURE;
}

static int is_named(const options *o, const char *name)
{
    for (int i = 0; i < o->file_count; i++)
        if (!strcmp(o->files[i], name))
            return 1;
    return !o->file_count;
}

static int print_list(const options *o)
{
    for (int i = 0; i < o->file_count; i++)
        if (!zn_published_find(o->files[i]))
            return unknown_model(o->files[i]);
    facts f;
    facts_begin(&f, o->json);
    if (f.json)
        json_open(&f.out, "models", '[');
    for (int i = 0; zn_published_at(i); i++) {
        const zn_published *p = zn_published_at(i);
        char size[32];
        if (!is_named(o, p->name))
            continue;
        if (f.json) {
            list_json(&f.out, p);
            continue;
        }
        say("%-16s  %9s  %-10s  %s; for %s\n", p->name, bytes_text(bytes_of(p), size), p->licence, p->description,
            p->used_by);
        if (o->file_count)
            list_files(p);
    }
    if (f.json)
        json_close(&f.out, ']');
    facts_end(&f);
    return 0;
}

/* ---- fetching ---- */

/* The address of a file at the mirror, if there is one. */
static char *mirrored(const char *url)
{
    const char *mirror = getenv("ZENITH_MIRROR"), *rest = strstr(url, "://");
    if (!mirror || !*mirror || !rest)
        return must_copy(url);
    const size_t length = strlen(mirror);
    return must_print("%s%s%s", mirror, mirror[length - 1] == '/' ? "" : "/", rest + 3);
}

/* $HF_TOKEN is for its site alone; --token is for the server that the user names. */
static const char *token_for(const options *o, const char *url)
{
    const char *hub = getenv("HF_TOKEN"), *site = "https://huggingface.co/";
    if (o->token)
        return o->token;
    return hub && *hub && !strncmp(url, site, strlen(site)) ? hub : NULL;
}

static void print_file(const options *o, const char *path, const char *url, const zn_download_result *r)
{
    facts f;
    char size[32], resumed[32];
    if (!o->json && o->quiet)
        return;
    facts_begin(&f, o->json);
    if (f.json) {
        fact_text(&f, "file", path);
        fact_text(&f, "url", url);
        fact_integer(&f, "bytes", r->bytes);
        fact_integer(&f, "resumed", r->resumed);
        fact_bool(&f, "existed", r->existed);
        fact_bool(&f, "checked", r->checked);
    } else {
        say("%s  %s%s", path, bytes_text((double)r->bytes, size), r->existed ? ", already there" : "");
        if (r->resumed)
            say(", continued at %s", bytes_text((double)r->resumed, resumed));
        say("%s\n", r->checked ? ", hash is right" : ", no hash to compare");
    }
    facts_end(&f);
}

static int fetch(const options *o, progress *p, const char *url, const char *path, const char *check)
{
    zn_download_result r;
    const zn_download_options d = { .size = sizeof d,
                                    .url = url,
                                    .path = path,
                                    .check = check,
                                    .token = token_for(o, url),
                                    .replace = o->force,
                                    .progress = progress_tick,
                                    .user = p };
    const zn_status status = zn_download(&d, &r);
    progress_erase();
    if (status != ZN_OK) {
        complain("%s", zn_error_text());
        return EXIT_FAILURE;
    }
    print_file(o, path, url, &r);
    return 0;
}

/* The files of a model of the table. */
static int pull_published(const options *o, const char *folder, const zn_published *model)
{
    progress p = { .quiet = o->quiet, .line_ms = progress_line_ms() };
    double done = 0;
    int status = 0;
    for (int i = 0; i < model->file_count && !status; i++) {
        const zn_published_file *f = &model->files[i];
        const double share = (double)f->bytes / bytes_of(model);
        const int slash = o->from && o->from[strlen(o->from) - 1] == '/';
        char *path = must_print("%s/%s", folder, f->path);
        char *url = o->from ? must_print("%s%s%s", o->from, slash ? "" : "/", base_name(f->path)) : mirrored(f->url);
        progress_begin(&p, base_name(f->path), done, share);
        status = fetch(o, &p, url, path, f->check);
        done += share;
        free(path);
        free(url);
    }
    return status;
}

/* One file that the table does not have, as NAME with the extension of the address. */
static int pull_other(const options *o, const char *folder, const char *name)
{
    progress p = { .quiet = o->quiet, .line_ms = progress_line_ms() };
    const char *file = base_name(o->from), *dot = strrchr(file, '.');
    if (strchr(name, '/') || name[0] == '.')
        return usage_error("pull", "'%s' must be a name, not a path; -o names the folder", name);
    if (!dot || !has_extension(file, "safetensors gguf pth pt ckpt json"))
        return usage_error("pull",
                           "--from needs the address of a weights file for '%s', which is not in the list; not '%s'",
                           name, o->from);
    char *path = must_print("%s/%s%s", folder, name, has_extension(name, dot + 1) ? "" : dot);
    char *check = o->sha256 ? must_print("sha256:%s", o->sha256) : NULL;
    progress_begin(&p, base_name(path), 0, 1);
    const int status = fetch(o, &p, o->from, path, check);
    free(path);
    free(check);
    return status;
}

static int pull_all(const options *o, const char *folder)
{
    int status = 0;
    for (int i = 0; i < o->file_count && !status; i++) {
        const zn_published *model = zn_published_find(o->files[i]);
        status = model ? pull_published(o, folder, model) : pull_other(o, folder, o->files[i]);
    }
    return status;
}

int pull_run(const options *o)
{
    char own[4096];
    if (o->list)
        return print_list(o);
    if (!o->file_count)
        return usage_error("pull", "needs the name of a model; --list shows them");
    if (o->from && o->file_count > 1)
        return usage_error("pull", "--from is for one model, not for %d", o->file_count);
    if (o->sha256 && (!o->from || zn_published_find(o->files[0])))
        return usage_error("pull", "--sha256 is for a file of --from that is not in the list");
    for (int i = 0; i < o->file_count; i++)
        if (!o->from && !zn_published_find(o->files[i]))
            return unknown_model(o->files[i]);
    if (!o->output && zn_models_folder(own, sizeof own) != ZN_OK) {
        complain("%s; name a folder with -o", zn_error_text());
        return EXIT_FAILURE;
    }
    interrupt_catch();
    if (o->json)
        facts_list_begin("files");
    const int status = pull_all(o, o->output ? o->output : own);
    if (o->json)
        facts_list_end();
    return status;
}
