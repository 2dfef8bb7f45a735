/* The number of threads never changes a result: whole images, tiles and bands of rows. The thread sanitizer runs this.
 */
#include "base/alloc.h"
#include "engine_bands.h"
#include "part_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        int width, height, tile;
    } cases[] = { { "taesd", 160, 96, ZN_TILE_OFF },
                  { "taef2", 160, 96, ZN_TILE_OFF },
                  { "taesana", 160, 96, ZN_TILE_OFF },
                  { "taesd", 200, 136, 64 } };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        zn_model *m = model_of(cases[k].model);
        for (int part = 0; part < 2; part++) {
            int64_t n1, n;
            float *one = result_of(m, (zn_part)part, cases[k].width, cases[k].height, 1, cases[k].tile, 0, &n1);
            for (int threads = 2; threads <= 5; threads++) {
                float *many =
                    result_of(m, (zn_part)part, cases[k].width, cases[k].height, threads, cases[k].tile, 0, &n);
                assert_int_equal(n, n1);
                assert_memory_equal(one, many, sizeof(float) * (size_t)n);
                zn_free(many);
            }
            zn_free(one);
        }
        zn_model_free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_do_not_change_a_bit),
        cmocka_unit_test(threads_do_not_change_bands),
    };
    return cmocka_run_group_tests_name("engine.threads", tests, NULL, NULL);
}
