/* zenith compare: measures the difference between two images. */
#include "commands.h"
#include "files/extensions.h"
#include "files/files.h"
#include "options/compute.h"
#include "ui/facts.h"
#include "ui/report.h"
#include "ui/scores.h"
#include "ui/show.h"

#include <stdlib.h>

static int open_image(const options *o, const char *path, zn_image **out)
{
    const zn_image_read_options reading = { .background = { o->background[0], o->background[1], o->background[2] } };
    if (zn_image_read(path, &reading, out) == ZN_OK)
        return 0;
    complain_about(path);
    return EXIT_FAILURE;
}

/* Both kinds of figures. */
static zn_status measure(const options *o, const zn_image *a, const zn_image *b, zn_image_difference *difference,
                         zn_scores *scores)
{
    const zn_options compute = compute_options(o, NULL);
    zn_scorer *scorer = NULL;
    zn_status status = zn_image_compare(a, b, difference);
    if (status == ZN_OK)
        status = zn_scorer_new((zn_lpips)o->lpips, &compute, &scorer);
    if (status == ZN_OK)
        status = zn_scorer_compare(scorer, a, b, scores);
    zn_scorer_free(scorer);
    return status;
}

/* A folder or a data set, not an image. */
static int is_set(const char *path) { return is_folder(path) || has_extension(path, "lmdb"); }

static int compare_sets(const options *o)
{
    const zn_options compute = compute_options(o, NULL);
    progress bar = { .quiet = o->quiet, .line_ms = progress_line_ms() };
    zn_fid_result r;
    progress_begin(&bar, "compare", 0, 1);
    interrupt_catch();
    const zn_fid_options set = { .data = { o->files[0], o->files[1] },
                                 .compute = &compute,
                                 .skipped = progress_skipped,
                                 .progress = progress_tick,
                                 .user = &bar };
    const zn_status status = zn_fid(&set, &r);
    progress_erase();
    if (status != ZN_OK) {
        complain("%s", zn_error_text());
        return EXIT_FAILURE;
    }
    note_few_images(o, r.images[0] < r.images[1] ? r.images[0] : r.images[1]);
    facts f;
    facts_begin(&f, o->json);
    fact_real(&f, "fid", r.fid, 3, "");
    fact_integer(&f, "images", r.images[0]);
    fact_integer(&f, "images_2", r.images[1]);
    facts_end(&f);
    return 0;
}

int compare_run(const options *o)
{
    for (int i = 0; i < 2; i++)
        if (is_video_file(o->files[i]) && !is_folder(o->files[i]))
            return usage_error("compare", "'%s' is a video: images, folders and data sets can be compared",
                               o->files[i]);
    if (is_set(o->files[0]) && is_set(o->files[1]))
        return compare_sets(o);
    zn_image *a = NULL, *b = NULL, *side = NULL;
    zn_image_difference difference;
    zn_scores scores;
    int status = open_image(o, o->files[0], &a);
    if (!status)
        status = open_image(o, o->files[1], &b);
    if (!status && measure(o, a, b, &difference, &scores) != ZN_OK) {
        complain("%s and %s: %s", o->files[0], o->files[1], zn_error_text());
        status = EXIT_FAILURE;
    }
    if (!status) {
        facts f;
        facts_begin(&f, o->json);
        fact_difference(&f, &difference);
        fact_perception(&f, &scores);
        if (f.json) {
            json_integer(&f.out, "width", a->width);
            json_integer(&f.out, "height", a->height);
        }
        facts_end(&f);
    }
    if (!status && o->show && zn_image_side_by_side(a, b, &side) == ZN_OK)
        show_image(o, side);
    zn_image_free(side);
    zn_image_free(a);
    zn_image_free(b);
    return status;
}
