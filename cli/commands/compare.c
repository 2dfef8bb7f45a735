/* zenith compare: measures the difference between two images. */
#include "commands.h"
#include "ui/facts.h"
#include "ui/report.h"
#include "ui/show.h"

#include <stdlib.h>

static int read_image(const options *o, const char *path, zn_image **out)
{
    const zn_image_read_options reading = { .background = { o->background[0], o->background[1], o->background[2] } };
    if (zn_image_read(path, &reading, out) == ZN_OK)
        return 0;
    complain_about(path);
    return EXIT_FAILURE;
}

int compare_run(const options *o)
{
    zn_image *a = NULL, *b = NULL, *side = NULL;
    zn_image_difference difference;
    int status = read_image(o, o->files[0], &a);
    if (!status)
        status = read_image(o, o->files[1], &b);
    if (!status && zn_image_compare(a, b, &difference) != ZN_OK) {
        complain("%s and %s: %s", o->files[0], o->files[1], zn_error_text());
        status = EXIT_FAILURE;
    }
    if (!status) {
        facts f;
        facts_begin(&f, o->json);
        fact_difference(&f, &difference);
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
