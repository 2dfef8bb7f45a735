/* zenith dataset: builds .lmdb data sets from folders of photos or from videos, describes them, and makes contact
 * sheets. */
#include "commands.h"
#include "files/files.h"
#include "files/film_pipe.h"
#include "files/ranks.h"
#include "ui/facts.h"
#include "ui/progress.h"
#include "ui/report.h"
#include "ui/show.h"

#include <stdlib.h>
#include <string.h>

static progress begin(const options *o, const char *label)
{
    progress bar = { .quiet = o->quiet, .line_ms = progress_line_ms() };
    progress_begin(&bar, label, 0, 1);
    interrupt_catch();
    return bar;
}

static int failed(void)
{
    progress_erase();
    complain("%s", zn_error_text());
    return EXIT_FAILURE;
}

/* ---- build ---- */

static int check_build(const options *o)
{
    if (o->file_count < 2)
        return usage_error("dataset", "build needs a folder: zenith dataset build DIR... -o SET.lmdb");
    if (!o->output || !has_extension(o->output, "lmdb"))
        return usage_error("dataset", "build needs -o and a name that ends in .lmdb");
    for (int i = 1; i < o->file_count; i++)
        if (same_file(o->files[i], o->output))
            return usage_error("dataset", "the result would replace the input '%s'", o->files[i]);
    if (o->clips && o->crops)
        return usage_error("dataset", "--crops are squares of photos: leave them out with --clips");
    if (o->rate > 0 && !o->clips)
        return usage_error("dataset", "--rate is for --clips");
    if (o->format && strcmp(o->format, "png") && strcmp(o->format, "jpg") && strcmp(o->format, "webp"))
        return usage_error("dataset", "cannot store '%s' images, only png, jpg or webp", o->format);
    if (file_exists(o->output) && !o->force) {
        complain("%s already exists; use --force to replace it", o->output);
        return EXIT_FAILURE;
    }
    return lacks_folder(o->output);
}

/* A folder of photos is taken for frames, which nobody would notice before training. */
static void remark_on_clips(const options *o, const zn_dataset_build_result *r)
{
    static const char advice[] =
        "look like separate photos, not like frames of a video; without --clips they are stored "
        "as photos";
    if (r->unrelated && r->photos == 1 && o->file_count == 2)
        note(o, "the images of %s %s", o->files[1], advice);
    else if (r->unrelated)
        note(o, "the images of %lld of %lld videos or folders %s", (long long)r->unrelated, (long long)r->photos,
             advice);
}

static void print_built(const options *o, const zn_dataset_build_result *r)
{
    facts f;
    facts_begin(&f, o->json);
    fact_text(&f, "output", o->output);
    fact_integer(&f, o->clips ? "videos" : "photos", r->photos);
    fact_integer(&f, "skipped", r->skipped);
    fact_integer(&f, o->clips ? "clips" : "images", r->pictures);
    fact_bytes(&f, "bytes", r->bytes);
    fact_real(&f, "seconds", r->seconds, 1, " s");
    facts_end(&f);
}

static void remark_on_faults(void *user, const char *name, const zn_film_faults *faults)
{
    film_report_faults(faults, name, progress_remark, user);
}

static int build_on(const options *o, zn_ranks *ranks)
{
    const int status = check_build(o);
    if (status)
        return status;
    progress bar = begin(o, "dataset build");
    const char *format = !o->format ? NULL : strcmp(o->format, "jpg") ? o->format : "jpeg";
    const zn_dataset_build_options b = { .inputs = o->files + 1,
                                         .input_count = o->file_count - 1,
                                         .output = o->output,
                                         .size = o->side,
                                         .crops = o->crops,
                                         .clips = o->clips,
                                         .rate = o->rate,
                                         .format = format,
                                         .write = { .quality = o->quality, .lossless = o->lossless },
                                         .seed = o->seed,
                                         .threads = o->threads,
                                         .ranks = ranks,
                                         .skipped = progress_skipped,
                                         .faults = remark_on_faults,
                                         .progress = progress_tick,
                                         .user = &bar };
    zn_dataset_build_result r;
    if (zn_dataset_build(&b, &r) != ZN_OK)
        return failed();
    progress_erase();
    remark_on_clips(o, &r);
    print_built(o, &r);
    return r.skipped ? EXIT_FAILURE : 0;
}

static int build(const options *o) { return on_ranks(o, build_on); }

/* ---- info ---- */

/* "5", or "5 to 9" */
static void print_range(facts *f, const char *name, int least, int most)
{
    if (f->json) {
        char *key = must_print("least_%s", name);
        json_integer(&f->out, key, least);
        free(key);
        key = must_print("most_%s", name);
        json_integer(&f->out, key, most);
        free(key);
    } else if (least == most) {
        say("%-15s %d\n", name, least);
    } else {
        say("%-15s %d to %d\n", name, least, most);
    }
}

static void print_info(const options *o, const char *path, const zn_dataset_info *i)
{
    const int clips = i->most_frames > 1;
    facts f;
    facts_begin(&f, o->json);
    fact_text(&f, "file", path);
    fact_text(&f, "kind", i->kind);
    fact_integer(&f, clips ? "clips" : "images", i->pictures);
    fact_integer(&f, "unreadable", i->unreadable);
    fact_bytes(&f, "bytes", i->bytes);
    fact_real(&f, "megapixels", (double)i->pixels * 1e-6, 1, "");
    if (clips)
        print_range(&f, "frames", i->least_frames, i->most_frames);
    print_range(&f, "width", i->least_width, i->most_width);
    print_range(&f, "height", i->least_height, i->most_height);
    fact_integer(&f, "for_training", i->for_training);
    fact_integer(&f, "held_out", i->held_out);
    if (f.json)
        json_integer(&f.out, "held_out_percent", i->held_out_percent);
    facts_end(&f);
}

int dataset_info(const options *o, const char *path)
{
    progress bar = begin(o, "dataset info");
    const zn_dataset_info_options i = { .held_out = o->heldout,
                                        .threads = o->threads,
                                        .skipped = progress_skipped,
                                        .progress = progress_tick,
                                        .user = &bar };
    zn_dataset_info r;
    if (zn_dataset_examine(path, &i, &r) != ZN_OK)
        return failed();
    progress_erase();
    print_info(o, path, &r);
    return r.unreadable ? EXIT_FAILURE : 0;
}

static int info(const options *o)
{
    if (o->file_count != 2)
        return usage_error("dataset", "info needs one folder or data set: zenith dataset info SET|DIR");
    return dataset_info(o, o->files[1]);
}

/* ---- show ---- */

static int check_show(const options *o)
{
    if (o->file_count != 2)
        return usage_error("dataset", "show needs one folder or data set: zenith dataset show SET|DIR -o sheet.png");
    if (!o->output && !o->show)
        return usage_error("dataset", "show needs -o or --show");
    if (o->output && !zn_image_can_write(o->output))
        return usage_error("dataset", "cannot write '%s': its name must end in .png, .jpg or .webp", o->output);
    return o->output ? lacks_folder(o->output) : 0;
}

static int sheet(const options *o)
{
    const int status = check_show(o);
    if (status)
        return status;
    progress bar = begin(o, "dataset show");
    const zn_dataset_sheet_options s = {
        .count = o->count, .side = o->side, .seed = o->seed, .skipped = progress_skipped, .user = &bar
    };
    const zn_image_write_options writing = { .quality = o->quality, .lossless = o->lossless, .threads = o->threads };
    zn_image *image = NULL;
    if (zn_dataset_sheet(o->files[1], &s, &image) != ZN_OK ||
        (o->output && zn_image_write(o->output, image, &writing) != ZN_OK)) {
        zn_image_free(image);
        return failed();
    }
    facts f;
    facts_begin(&f, o->json);
    if (o->output)
        fact_text(&f, "output", o->output);
    fact_integer(&f, "width", image->width);
    fact_integer(&f, "height", image->height);
    facts_end(&f);
    if (o->show)
        show_image(o, image);
    zn_image_free(image);
    return bar.skipped ? EXIT_FAILURE : 0;
}

/* ---- the command ---- */

enum { BUILD = 1, INFO = 2, SHOW = 4 };

/* Rejects options of other actions. */
static int check_options(const options *o, const char *action, int bit)
{
    const struct {
        const char *name;
        int given, actions;
    } uses[] = {
        { "output", o->output != NULL, BUILD | SHOW },
        { "size", o->side != 0, BUILD | SHOW },
        { "crops", o->crops != 0, BUILD },
        { "clips", o->clips != 0, BUILD },
        { "force", o->force, BUILD },
        { "rate", o->rate > 0, BUILD },
        { "count", o->count != 0, SHOW },
        { "heldout", o->heldout != 0, INFO },
        { "format", o->format != NULL, BUILD },
        { "quality", o->quality != 0, BUILD | SHOW },
        { "lossless", o->lossless, BUILD | SHOW },
        { "seed", o->seed != 0, BUILD | SHOW },
        { "show", o->show, SHOW },
    };
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        if (uses[i].given && !(uses[i].actions & bit))
            return usage_error("dataset", "--%s does not apply to %s", uses[i].name, action);
    return 0;
}

int dataset_run(const options *o)
{
    static const struct {
        const char *name;
        int (*run)(const options *o);
        int bit;
    } actions[] = { { "build", build, BUILD }, { "info", info, INFO }, { "show", sheet, SHOW } };
    const char *action = o->file_count ? o->files[0] : "";
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (!strcmp(action, actions[i].name)) {
            const int status = check_options(o, action, actions[i].bit);
            return status ? status : actions[i].run(o);
        }
    return usage_error("dataset", "the action comes first: build, info or show%s%s%s", *action ? ", not '" : "", action,
                       *action ? "'" : "");
}
