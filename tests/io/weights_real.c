/* The real checkpoints under SHARED/data/weights: each .pth equals its .safetensors twin bit for bit, and files have
 * the checksums their README states. Skipped where the files are absent. */
#include "weights_test.h"

#include <unistd.h>

static const struct {
    const char *stem;
    int tensors;
    const char *sha256; /* of the .pth */
} models[] = {
    { "taef2/taef2_encoder", 79, "10a4e1021e89d7551eaf161352da8dbd0b1aa83872ae28b150c1df1ce2f147b6" },
    { "taef2/taef2_decoder", 79, "0a44a31e1ae59eb9dbf9359d24942fd3ef5928162c1800d97a28c61d51be0ab5" },
    { "taesana/taesana_encoder", 69, "858f4e4cc293f88efaf58107f4154b960b9ced0cb5d9c050dad11f926b618c1f" },
    { "taehv_latents/test_latents_wan", 1, "fea1efa5bb0afebb84d20114fa8883e06144f9fba6c5052ecf7d0d7a35d4a808" },
};

static const char *shared(void)
{
    const char *folder = getenv("ZENITH_SHARED");
    return folder && *folder ? folder : SHARED;
}

static const char *path_of(const char *stem, const char *extension)
{
    static char path[2][4096];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/data/weights/%s%s", shared(), stem, extension);
    return path[turn];
}

static void twins(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        zn_weights *a = must_open(path_of(models[i].stem, ".pth"));
        zn_weights *b = must_open(path_of(models[i].stem, ".safetensors"));
        assert_int_equal(zn_weights_count(a), models[i].tensors);
        assert_int_equal(zn_weights_count(b), models[i].tensors);
        for (int64_t k = 0; k < zn_weights_count(a); k++)
            assert_same_tensor(zn_weights_at(a, k), zn_weights_at(b, k));
        zn_weights_close(a);
        zn_weights_close(b);
    }
}

static void checksums(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char hex[65];
        assert_int_equal(zn_file_sha256(path_of(models[i].stem, ".pth"), hex), ZN_OK);
        assert_string_equal(hex, models[i].sha256);
    }
}

static void legacy_is_named(void **state)
{
    (void)state;
    zn_weights *w;
    assert_int_equal(zn_weights_open(path_of("lpips/lpips_v0.1_alex_lin", ".pth"), &w), ZN_EUNSUPPORTED);
    assert_non_null(strstr(zn_error_text(), "legacy"));
}

int main(void)
{
    if (access(path_of(models[0].stem, ".pth"), R_OK) != 0) {
        printf("skipped: no weights under %s/data/weights\n", shared());
        return 77;
    }
    const struct CMUnitTest tests[] = { cmocka_unit_test(twins), cmocka_unit_test(checksums),
                                        cmocka_unit_test(legacy_is_named) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
