/* The images that one command makes. Files in a folder are written one by one; a sheet or a video is written when all
 * images are complete. */
#include "session/results.h"

#include "commands.h"
#include "files/files.h"
#include "files/standard.h"
#include "session/film.h"
#include "ui/progress.h"
#include "ui/report.h"
#include "ui/show.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { RATE = 24, STRIP = 16 }; /* STRIP: maximum number of images in one row */

int results_to_standard_output(const results *r) { return r->o->output && !strcmp(r->o->output, "-"); }

static const char *extension(const options *o) { return o->format ? o->format : "png"; }

static char *numbered(const results *r, int number)
{
    const char *folder = r->o->output;
    return must_print("%s%s%04d.%s", folder, folder[strlen(folder) - 1] == '/' ? "" : "/", number, extension(r->o));
}

/* Reports an error if a result would replace an input. */
static int replaces(const results *r)
{
    const options *o = r->o;
    for (int i = 0; i < o->file_count; i++) {
        int same = !r->folder && same_file(o->output, o->files[i]);
        for (int k = 1; r->folder && !same && k <= r->expected; k++) {
            char *path = numbered(r, k);
            same = same_file(path, o->files[i]);
            free(path);
        }
        if (same)
            return usage_error(o->command->name, "the result would replace the input '%s'", o->files[i]);
    }
    return 0;
}

static int check_output(results *r, unsigned kinds)
{
    const options *o = r->o;
    const char *name = o->command->name;
    const char *why = results_to_standard_output(r) ? standard_output_problem(o->json, o->show) : NULL;
    if (!o->output)
        return o->show ? 0 : usage_error(name, "-o is needed: an image, or a folder for several");
    if (why)
        return usage_error(name, "cannot write to standard output: %s", why);
    const int film = is_video_file(o->output);
    r->folder = is_folder(o->output) || o->output[strlen(o->output) - 1] == '/';
    char *sample = must_print("x.%s", extension(o));
    const int good = zn_image_can_write(sample);
    free(sample);
    if (!good)
        return usage_error(name, "cannot write '%s' files, only .png, .jpg or .webp", extension(o));
    if (!r->folder && !results_to_standard_output(r) && !zn_image_can_write(o->output) &&
        !(film && (kinds & RESULTS_VIDEO)))
        return usage_error(name, "cannot write '%s': its name must end in .png, .jpg or .webp%s, or in / for a folder",
                           o->output, kinds & RESULTS_VIDEO ? ", in .mp4, .mkv, .mov or .webm for a video" : "");
    if (o->rate > 0 && (!film || r->folder))
        return usage_error(name, "--rate is for a video, and '%s' is not one", o->output);
    if (film && !r->folder && film_check_settings(o))
        return EXIT_USAGE;
    if (film && !r->folder && zn_film_check(o->output) != ZN_OK) {
        complain_about(o->output);
        return EXIT_FAILURE;
    }
    const int status = replaces(r);
    return status || results_to_standard_output(r) ? status : lacks_folder(o->output);
}

int results_begin(results *r, const options *o, int expected, int columns, unsigned kinds)
{
    if (!columns)
        columns = expected <= STRIP ? expected : (int)ceil(sqrt(expected));
    *r = (results){ .o = o,
                    .writing = { .quality = o->quality, .lossless = o->lossless, .threads = o->threads },
                    .expected = expected,
                    .columns = columns };
    const int status = check_output(r, kinds);
    if (!status && !r->folder) {
        r->pictures = must_alloc(NULL, (size_t)expected * sizeof *r->pictures);
        memset(r->pictures, 0, (size_t)expected * sizeof *r->pictures);
    }
    return status;
}

int results_check_size(const results *r, int width, int height)
{
    const options *o = r->o;
    if (!o->output || (!r->folder && is_video_file(o->output)))
        return 0;
    const int columns = r->folder ? 1 : r->columns;
    const int rows = r->folder ? 1 : (r->expected + r->columns - 1) / r->columns;
    char *kind = r->folder || results_to_standard_output(r) ? must_print("-.%s", extension(o)) : must_copy(o->output);
    const int good = check_image(kind, (int64_t)width * columns, (int64_t)height * rows, 0) == ZN_OK;
    free(kind);
    if (!good)
        complain_about(o->output);
    return good ? 0 : EXIT_FAILURE;
}

static int write_single(results *r, const zn_image *picture)
{
    if (r->count == 1 && mkdir(r->o->output, 0777) && errno != EEXIST) {
        complain("cannot create the folder %s: %s", r->o->output, strerror(errno));
        return EXIT_FAILURE;
    }
    char *path = numbered(r, r->count);
    const int failed = zn_image_write(path, picture, &r->writing) != ZN_OK;
    if (failed)
        complain_about(path);
    free(path);
    if (!failed && r->o->show)
        show_image(r->o, picture);
    return failed ? EXIT_FAILURE : 0;
}

int results_add(results *r, zn_image *picture)
{
    r->count++;
    r->width = picture->width;
    r->height = picture->height;
    if (!r->folder) {
        r->pictures[r->count - 1] = picture;
        return 0;
    }
    const int status = write_single(r, picture);
    zn_image_free(picture);
    return status;
}

/* Joins all images into one, row by row. The rest of the last row is black. Grey images make a grey one. */
static zn_status sheet(results *r, zn_image **out)
{
    const size_t row = (size_t)r->width * 3, line = row * (size_t)r->columns;
    const zn_status status =
        zn_image_new(r->width * r->columns, r->height * ((r->count + r->columns - 1) / r->columns), 8, out);
    for (int i = 0; status == ZN_OK && i < r->count; i++)
        for (int y = 0; y < r->height; y++)
            memcpy((uint8_t *)(*out)->pixels + (size_t)(i / r->columns * r->height + y) * line +
                       (size_t)(i % r->columns) * row,
                   (const uint8_t *)r->pictures[i]->pixels + (size_t)y * row, row);
    if (status == ZN_OK)
        (*out)->grey = 1;
    for (int i = 0; status == ZN_OK && i < r->count; i++)
        (*out)->grey &= r->pictures[i]->grey != 0;
    return status;
}

static zn_status write_video(const results *r)
{
    zn_film_writer *film = NULL;
    zn_status status = zn_film_create(r->o->output, r->width, r->height, r->o->rate > 0 ? r->o->rate : RATE, 0, &film);
    for (int i = 0; status == ZN_OK && i < r->count; i++)
        status = zn_film_write(film, r->pictures[i]);
    if (status == ZN_OK)
        return zn_film_finish(film);
    zn_film_drop(film);
    return status;
}

static zn_status write_sheet(results *r)
{
    const options *o = r->o;
    zn_image *whole = NULL;
    zn_status status = sheet(r, &whole);
    if (status == ZN_OK && results_to_standard_output(r)) {
        char *kind = must_print("-.%s", extension(o));
        status = write_image(STANDARD_OUTPUT, kind, whole, &r->writing);
        free(kind);
    } else if (status == ZN_OK && o->output) {
        status = zn_image_write(o->output, whole, &r->writing);
    }
    if (status == ZN_OK) {
        r->width = whole->width;
        r->height = whole->height;
        if (o->show)
            show_image(o, whole);
    }
    zn_image_free(whole);
    return status;
}

int results_write(results *r)
{
    progress_erase();
    if (r->folder)
        return 0;
    const int film = r->o->output && is_video_file(r->o->output);
    if ((film ? write_video(r) : write_sheet(r)) == ZN_OK)
        return 0;
    complain_about(r->o->output ? r->o->output : "the sheet");
    return EXIT_FAILURE;
}

void results_facts(const results *r, facts *f)
{
    fact_integer(f, "images", r->count);
    fact_integer(f, "width", r->width);
    fact_integer(f, "height", r->height);
    if (r->o->output)
        fact_text(f, "output", r->o->output);
    else if (f->json)
        json_null(&f->out, "output");
}

void results_end(results *r)
{
    for (int i = 0; r->pictures && i < r->expected; i++)
        zn_image_free(r->pictures[i]);
    free(r->pictures);
    *r = (results){ 0 };
}
