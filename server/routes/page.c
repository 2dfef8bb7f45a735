/* The studio's page, from the program itself. */
#include "server/embedded.h"
#include "server/routes/routes.h"

#include <stdio.h>
#include <string.h>

static const char *type_of(const char *path)
{
    static const struct {
        const char *extension, *type;
    } types[] = { { ".html", "text/html; charset=utf-8" },
                  { ".js", "text/javascript; charset=utf-8" },
                  { ".mjs", "text/javascript; charset=utf-8" },
                  { ".css", "text/css; charset=utf-8" },
                  { ".json", "application/json" },
                  { ".svg", "image/svg+xml" },
                  { ".png", "image/png" },
                  { ".ico", "image/x-icon" },
                  { ".webmanifest", "application/manifest+json" } };
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].extension, dot))
            return types[i].type;
    return "application/octet-stream";
}

static const sv_embedded *find(const char *path)
{
    for (const sv_embedded *f = sv_embedded_files; f->path; f++)
        if (!strcmp(f->path, path))
            return f;
    return NULL;
}

void sv_get_openapi(const sv_request *r, sv_answer *a)
{
    (void)r;
    const sv_embedded *f = find("/openapi.json");
    sv_answer_constant(a, "application/json", f->bytes, f->size);
}

void sv_get_page(const sv_request *r, sv_answer *a)
{
    static const char plain[] = "zenith serve is running. /openapi.json describes its API.\n";
    const int root = !strcmp(r->path, "/");
    const sv_embedded *f = find(root ? "/index.html" : r->path);
    if (f)
        sv_answer_constant(a, type_of(f->path), f->bytes, f->size);
    else if (root)
        sv_answer_constant(a, "text/plain; charset=utf-8", plain, sizeof plain - 1);
    else
        sv_answer_error(a, 404, "there is nothing at %.200s; /openapi.json describes the API", r->path);
    if (!f)
        return;
    sv_answer_header(a, "Content-Security-Policy",
                     "default-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; frame-ancestors 'none'; "
                     "base-uri 'none'; form-action 'self'");
    sv_answer_header(a, "Cache-Control", "no-cache");
}
