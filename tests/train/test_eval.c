/* Data sets and judging: crops are where they should be, gates are counted, and running out of memory anywhere is an
 * error and nothing worse. */
#include "base/alloc.h"
#include "io/dataset/dataset.h"
#include "io/image/pixels/resize.h"
#include "models/model.h"
#include "pipeline/eval/eval_score.h"
#include "train_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zenith/eval.h>

#include "../skip.h"

static char pictures[96], set[96];

static uint8_t *pixel(const zn_image *image, int x, int y)
{
    return (uint8_t *)image->pixels + ((size_t)y * (size_t)image->width + (size_t)x) * 3;
}

/* Red tells the column, green the row. */
static zn_image *ramp(int width, int height)
{
    zn_image *image;
    assert_int_equal(zn_image_new(width, height, 8, &image), ZN_OK);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            pixel(image, x, y)[0] = (uint8_t)x;
            pixel(image, x, y)[1] = (uint8_t)y;
            pixel(image, x, y)[2] = 7;
        }
    return image;
}

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/zenith-eval-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(pictures, sizeof pictures, "%s/pictures", folder);
    snprintf(set, sizeof set, "%s/set.lmdb", folder);
    assert_int_equal(mkdir(pictures, 0777), 0);
    for (int i = 0; i < 3; i++) {
        char path[128];
        zn_image *image = ramp(64 + 32 * i, 64);
        snprintf(path, sizeof path, "%s/%d.png", pictures, i);
        assert_int_equal(zn_image_write(path, image, NULL), ZN_OK);
        zn_image_free(image);
    }
    return 0;
}

static void shrinking_averages_areas(void **state)
{
    (void)state;
    zn_image *image = ramp(200, 100), *small, *wide, *same;
    assert_int_equal(zn_image_shrink(image, (zn_region){ 20, 10, 80, 60 }, 20, 15, &small), ZN_OK);
    for (int y = 0; y < 15; y++)
        for (int x = 0; x < 20; x++) { /* means of four: 20 + 4x + 1.5, rounded up */
            assert_int_equal(pixel(small, x, y)[0], 22 + 4 * x);
            assert_int_equal(pixel(small, x, y)[1], 12 + 4 * y);
            assert_int_equal(pixel(small, x, y)[2], 7);
        }
    /* 3 samples for 2: (0 + 1/2 of 1) / 1.5 and (1/2 of 1 + 2) / 1.5, here with a step of 3 */
    assert_int_equal(zn_image_shrink(image, (zn_region){ 3, 0, 3, 1 }, 2, 1, &wide), ZN_OK);
    assert_int_equal(pixel(wide, 0, 0)[0], 3);
    assert_int_equal(pixel(wide, 1, 0)[0], 5);
    assert_int_equal(zn_image_shrink(image, (zn_region){ 0, 0, 200, 100 }, 200, 100, &same), ZN_OK);
    assert_memory_equal(same->pixels, image->pixels, 200 * 100 * 3);
    zn_image_free(same);
    zn_image_free(wide);
    zn_image_free(small);
    zn_image_free(image);
}

static zn_status build(int crops, int threads)
{
    const char *inputs[] = { pictures };
    const zn_dataset_build_options o = { .inputs = inputs,
                                         .input_count = 1,
                                         .output = set,
                                         .size = 32,
                                         .crops = crops,
                                         .format = "png",
                                         .threads = threads };
    zn_dataset_build_result r;
    return zn_dataset_build(&o, &r);
}

static bool no_lmdb(void)
{
    const zn_status status = build(0, 1);
    if (status != ZN_EUNSUPPORTED)
        assert_int_equal(status, ZN_OK);
    return status == ZN_EUNSUPPORTED;
}

static void a_set_holds_the_middle_or_squares(void **state)
{
    (void)state;
    if (no_lmdb())
        skip_because("this build has no LMDB");
    zn_dataset *d;
    zn_image *image;
    assert_int_equal(zn_dataset_open(set, &d), ZN_OK);
    assert_int_equal(zn_dataset_count(d), 3);
    assert_string_equal(zn_dataset_name(d, 2), "2.png");
    assert_int_equal(zn_dataset_read(d, 2, &image), ZN_OK); /* of 128x64: columns 32 to 95, halved */
    assert_true(image->width == 32 && image->height == 32);
    assert_int_equal(pixel(image, 0, 0)[0], 33);
    assert_int_equal(pixel(image, 31, 31)[0], 95);
    assert_int_equal(pixel(image, 31, 31)[1], 63);
    zn_image_free(image);
    zn_dataset_close(d);
    assert_int_equal(build(8, 2), ZN_OK);
    assert_int_equal(zn_dataset_open(set, &d), ZN_OK);
    assert_int_equal(zn_dataset_count(d), 24);
    for (int64_t i = 0; i < 24; i++) { /* squares: as many columns as rows, somewhere inside */
        assert_int_equal(zn_dataset_read(d, i, &image), ZN_OK);
        const int columns = pixel(image, 31, 0)[0] - pixel(image, 0, 0)[0];
        const int rows = pixel(image, 0, 31)[1] - pixel(image, 0, 0)[1];
        assert_true(image->width == 32 && image->height == 32 && abs(columns - rows) <= 1 && columns >= 31);
        assert_true(pixel(image, 31, 0)[0] < 64 + 32 * (zn_dataset_name(d, i)[0] - '0'));
        assert_int_equal(zn_dataset_held_out(d, i, 50), zn_dataset_held_out(d, i / 8 * 8, 50));
        zn_image_free(image);
    }
    zn_dataset_close(d);
}

/* ---- contact sheets of clips ---- */

/* The red of frame i, which is flat. */
static int red_of(int i) { return 50 + 25 * i; }

/* A data set of one clip of 32x32 pixels. Returns false if this build has no LMDB. */
static bool build_clip(int frames)
{
    char clips[112], path[160];
    snprintf(clips, sizeof clips, "%s/clip%d", folder, frames);
    assert_int_equal(mkdir(clips, 0777), 0);
    for (int i = 0; i < frames; i++) {
        zn_image *image;
        assert_int_equal(zn_image_new(32, 32, 8, &image), ZN_OK);
        memset(image->pixels, red_of(i), 32 * 32 * 3);
        snprintf(path, sizeof path, "%s/%d.png", clips, i);
        assert_int_equal(zn_image_write(path, image, NULL), ZN_OK);
        zn_image_free(image);
    }
    const char *inputs[] = { clips };
    const zn_dataset_build_options o = {
        .inputs = inputs, .input_count = 1, .output = set, .size = 32, .clips = frames, .format = "png", .threads = 1
    };
    zn_dataset_build_result r;
    const zn_status status = zn_dataset_build(&o, &r);
    if (status != ZN_EUNSUPPORTED)
        assert_int_equal(status, ZN_OK);
    return status == ZN_OK;
}

/* The sheet of the set has the clip in its first square, which begins at 4, 4. Checks that each quarter of the square,
 * or the whole if it has no room for several, is the frame of this number (-1: none), and that nothing else was drawn.
 */
static void check_sheet(int side, const int *shown)
{
    enum { GAP = 4, GREY = 32 };
    const int columns = side > GAP + 1 ? 2 : 1, each = columns == 2 ? (side - GAP) / 2 : side;
    zn_image *sheet;
    assert_int_equal(zn_dataset_sheet(set, &(zn_dataset_sheet_options){ .side = side }, &sheet), ZN_OK);
    assert_true(sheet->width >= side + 2 * GAP && sheet->height == side + 2 * GAP);
    for (int y = 0; y < sheet->height; y++)
        for (int x = 0; x < sheet->width; x++) {
            const int column = x < GAP ? columns : (x - GAP) / (each + GAP), row = (y - GAP) / (each + GAP);
            const bool in_quarter = column < columns && y >= GAP && row < columns && (x - GAP) % (each + GAP) < each &&
                                    (y - GAP) % (each + GAP) < each;
            const int frame = in_quarter ? shown[row * columns + column] : -1;
            assert_int_equal(pixel(sheet, x, y)[0], frame < 0 ? GREY : red_of(frame));
        }
    zn_image_free(sheet);
}

static void clips_show_four_frames(void **state)
{
    (void)state;
    if (!build_clip(7))
        skip_because("this build has no LMDB");
    const int four[] = { 0, 2, 4, 6 };
    check_sheet(36, four);
    check_sheet(6, four); /* of a pixel each */
    check_sheet(5, four); /* the first alone */
    check_sheet(1, four);
    assert_true(build_clip(2));
    const int both[] = { 0, 1, -1, -1 };
    check_sheet(36, both);
    check_sheet(5, both);
}

/* Shuts every second block of the first gate. */
static zn_model *half_shut(void)
{
    zn_model *m;
    assert_int_equal(zn_model_random("zenith-hier", 1, &m), ZN_OK);
    for (int i = 0; i < m->count; i++)
        if (strstr(m->parameters[i].name, "gate1.v"))
            for (int64_t k = 0; k < zn_shape_count(m->parameters[i].shape); k += 2)
                m->parameters[i].data[k] = -1e6f;
    return m;
}

static void gates_are_counted(void **state)
{
    (void)state;
    zn_model *m = half_shut();
    zn_gate_result r;
    assert_int_equal(zn_eval_gates(m, &(zn_eval_options){ .data = pictures }, &r), ZN_OK);
    assert_int_equal(r.pictures, 3);
    double share = 0;
    for (int i = 0; i < r.row_count; i++) {
        const zn_gate_row *row = &r.rows[i];
        share += row->share;
        if (!strcmp(row->layer, "gate1") || !strcmp(row->layer, "block1"))
            assert_true(row->pruned == 0.5);
        else if (!strcmp(row->layer, "gate2") || !strcmp(row->layer, "block2"))
            assert_true(row->pruned >= 0 && row->pruned <= 1);
        else
            assert_true(isnan(row->pruned));
    }
    assert_int_equal(r.row_count, 6);
    assert_true(fabs(share - 1) < 1e-9);
    zn_gate_result_clear(&r);
    zn_model_free(m);
}

static zn_scores made_up(double psnr, double ssim, double lpips)
{
    zn_scores s = zn_no_scores();
    s.psnr = psnr;
    s.ssim = ssim;
    s.lpips_alex = lpips;
    s.psnr_infinite = isinf(psnr);
    return s;
}

/* Three pictures with one damage; the filters are made up. */
static void means_leave_infinite_out(void **state)
{
    (void)state;
    const zn_scores some = made_up(30, 0.5, 0.25), other = made_up(20, 0.7, NAN), exact = made_up(INFINITY, 1, 0);
    const zn_scores none = zn_no_scores();
    zn_eval_row rows[3] = {
        { "a", "salt:5", 8, 9, 1, some, { exact, some, exact, none } },
        { "b", "salt:5", 8, 9, 2, exact, { exact, some, other, none } },
        { "c", "salt:5", 8, 9, 3, other, { exact, other, exact, none } },
    };
    zn_eval_result r = {
        .varied = "damage", .rows = rows, .row_count = 3, .groups = { { .damage = "salt:5" } }, .group_count = 1
    };
    zn_eval_average(&r);
    const zn_eval_group *m = &r.groups[0];
    assert_true(m->model.psnr == 25 && m->model.psnr_infinite == 1 && fabs(m->model.ssim - 2.2 / 3) < 1e-12);
    assert_true(isinf(m->plain[0].psnr) && m->plain[0].psnr_infinite == 3);
    assert_true(fabs(m->plain[1].psnr - 80.0 / 3) < 1e-12 && m->plain[1].psnr_infinite == 0);
    assert_true(m->plain[2].psnr == 20 && m->plain[2].psnr_infinite == 2);
    assert_true(isnan(m->plain[3].psnr) && m->plain[3].psnr_infinite == 0);

    assert_true(m->model.lpips_alex == 0.125 && isnan(m->model.lpips_squeeze) && isnan(m->plain[3].lpips_alex));

    char path[128], text[4096] = "";
    snprintf(path, sizeof path, "%s/scores.csv", folder);
    assert_int_equal(zn_eval_write(path, &r), ZN_OK);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    assert_non_null(strstr(text, "\n\"b\",8,9,2.000,inf,1,,1,0,,,,,,,,salt:5,inf,1,,1,0,,,,,,,,30,0.5,,0,0.25,"));
    assert_non_null(strstr(text, "\nmean,,,2.000,25,0.733333333,,1,0.125,,,,,,,,salt:5,inf,1,,3,0,,,,,,,,26.6666667,"));
    snprintf(path, sizeof path, "%s/scores.json", folder);
    assert_int_equal(zn_eval_write(path, &r), ZN_OK);
    f = fopen(path, "r");
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    assert_non_null(strstr(text, "\"psnr\": 25, \"ssim\": 0.733333333, \"ms_ssim\": null, \"psnr_infinite\": 1, "
                                 "\"lpips_alex\": 0.125, \"lpips_squeeze\": null, \"luma_kept\": [null, null, null]"));
    assert_non_null(
        strstr(text, "\"damaged\": {\"psnr\": null, \"ssim\": 1, \"ms_ssim\": null, \"psnr_infinite\": 3, "));
}

/* Lets the n-th allocation fail, until the call needs fewer; of many, not every n. Fusing layers may do without. */
static void starve(zn_status (*call)(void))
{
    bool reached = true;
    for (int64_t n = 1; reached; n += 1 + n / 40) {
        const int64_t before = zn_alloc_calls();
        zn_alloc_fail_at(n);
        const zn_status status = call();
        zn_alloc_fail_at(0);
        reached = zn_alloc_calls() - before >= n;
        assert_true(status == ZN_OK || (reached && status == ZN_ENOMEM));
    }
}

static zn_model *model;

static zn_status build_once(void) { return build(2, 1); }

static zn_status examine_once(void)
{
    zn_dataset_info info;
    return zn_dataset_examine(pictures, &(zn_dataset_info_options){ .threads = 1 }, &info);
}

static zn_status sheet_once(void)
{
    zn_image *sheet;
    const zn_status status = zn_dataset_sheet(pictures, &(zn_dataset_sheet_options){ .side = 16 }, &sheet);
    zn_image_free(sheet);
    return status;
}

static zn_status eval_once(void)
{
    zn_eval_result r;
    const zn_status status =
        zn_eval(model, &(zn_eval_options){ .data = pictures, .compute = &(zn_options){ .threads = 1 } }, &r);
    zn_eval_result_clear(&r);
    return status;
}

static zn_status gates_once(void)
{
    zn_gate_result r;
    const zn_status status =
        zn_eval_gates(model, &(zn_eval_options){ .data = pictures, .compute = &(zn_options){ .threads = 1 } }, &r);
    zn_gate_result_clear(&r);
    return status;
}

typedef struct seen {
    double fractions[4096];
    int count;
} seen;

static int note_progress(void *user, double fraction)
{
    seen *s = user;
    if (s->count < 4096)
        s->fractions[s->count++] = fraction;
    return 0;
}

static bool has_seen(const seen *s, double fraction)
{
    bool found = false;
    for (int i = 0; i < s->count; i++)
        found |= fabs(s->fractions[i] - fraction) < 1e-9;
    return found;
}

/* Of 288 columns of 64 pixels, the first image has 64 and the second 96. */
static void progress_is_that_of_pixels(void **state)
{
    (void)state;
    static seen s;
    model = half_shut();
    const zn_eval_options o = {
        .data = pictures, .compute = &(zn_options){ .threads = 1 }, .progress = note_progress, .user = &s
    };
    zn_gate_result gates;
    assert_int_equal(zn_eval_gates(model, &o, &gates), ZN_OK);
    assert_int_equal(s.count, 3);
    assert_true(has_seen(&s, 64.0 / 288) && has_seen(&s, 160.0 / 288) && has_seen(&s, 1));
    zn_gate_result_clear(&gates);
    s.count = 0;
    zn_eval_result scores;
    assert_int_equal(zn_eval(model, &o, &scores), ZN_OK);
    assert_true(has_seen(&s, 64.0 / 288) && has_seen(&s, 160.0 / 288) && has_seen(&s, 1));
    zn_eval_result_clear(&scores);
    zn_model_free(model);
}

static void without_memory_there_is_an_error(void **state)
{
    (void)state;
    model = half_shut();
    if (!no_lmdb())
        starve(build_once);
    starve(examine_once);
    starve(sheet_once);
    starve(eval_once);
    starve(gates_once);
    zn_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shrinking_averages_areas),         cmocka_unit_test(a_set_holds_the_middle_or_squares),
        cmocka_unit_test(clips_show_four_frames),           cmocka_unit_test(gates_are_counted),
        cmocka_unit_test(means_leave_infinite_out),         cmocka_unit_test(progress_is_that_of_pixels),
        cmocka_unit_test(without_memory_there_is_an_error),
    };
    return cmocka_run_group_tests_name("eval", tests, set_up, files_tear_down);
}
