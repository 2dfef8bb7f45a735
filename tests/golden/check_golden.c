/* check-golden [--device cuda] FILE.safetensors...: compares the engine with reference results, one line for each
 * output. Fails if an output differs, is not understood, or nothing at all was compared. */
#include "golden.h"

#include "base/alloc.h"
#include "base/file.h"

#include <stdio.h>
#include <string.h>

/* The first that matches is taken, so those that look closest come first. */
static const golden_kind *const kinds[] = {
    &golden_diffae_schedule, &golden_diffae_networks, &golden_diffae_latent,
    &golden_diffae_ops,      &golden_diffae_mamba,    &golden_wan_fp8,
    &golden_wan_sdpa,        &golden_wan_ops,         &golden_wan_vae,
    &golden_wan_taehv,       &golden_wan_train,       &golden_wan_tiled,
    &golden_zenith_train,    &golden_zenith_models,   &golden_zenith_ops,
    &golden_taesd_real,      &golden_taesd_block,     &golden_taesd,
    &golden_zimage_gguf,     &golden_zimage_mlx,      &golden_zimage_noise,
    &golden_zimage_schedule, &golden_zimage_timestep, &golden_zimage_rope,
    &golden_zimage_qwen3,    &golden_zimage_dit,      &golden_zimage_vae,
    &golden_zimage_denoise,  &golden_features,        NULL,
};

static const golden_kind *kind_of(const golden *g)
{
    for (int i = 0; kinds[i]; i++)
        if (kinds[i]->matches(g))
            return kinds[i];
    return NULL;
}

static void leftovers(golden *g)
{
    for (int64_t i = 0; i < zn_weights_count(g->file); i++) {
        const char *name = zn_weights_at(g->file, i)->name;
        if (strncmp(name, "out.", 4) == 0 && !g->compared[i]) {
            printf("%-48s not understood  FAIL\n", name + 4);
            g->failed++;
        }
    }
}

/* The configuration: in the file itself, or a JSON file beside it, FAMILY_VARIANT_config.json for all cases of a
 * variant or of the same name. None at all is no error. */
static void read_config(golden *g, const char *name)
{
    const char *inside = zn_weights_metadata(g->file, "config");
    if (inside && zn_json_parse(&g->config_doc, inside, strlen(inside), "config") == ZN_OK) {
        g->config = g->config_doc.root;
        return;
    }
    const size_t stem = strlen(g->path) - strlen(".safetensors"), end = name ? strlen(name) : 0;
    char path[4096];
    snprintf(path, sizeof path, "%.*s.json", (int)stem, g->path);
    if (name && stem > end + 1 && g->path[stem - end - 1] == '_' && strncmp(g->path + stem - end, name, end) == 0)
        snprintf(path, sizeof path, "%.*sconfig.json", (int)(stem - end), g->path);
    zn_map map;
    if (zn_map_open(&map, path) != ZN_OK)
        return;
    if (zn_json_parse(&g->config_doc, (const char *)map.bytes, map.size, path) == ZN_OK)
        g->config = g->config_doc.root;
    zn_map_close(&map);
}

static zn_status check(golden *g)
{
    zn_status status = zn_weights_open(g->path, &g->file);
    if (status != ZN_OK)
        return status;
    g->compared = zn_calloc((size_t)zn_weights_count(g->file) + 1, sizeof *g->compared);
    const char *name = zn_weights_metadata(g->file, "case");
    read_config(g, name);
    const char *layout = zn_json_string(zn_json_get(g->config, "layout"));
    g->nhwc = layout && strncmp(layout, "NHWC", 4) == 0;
    const golden_kind *kind = g->compared ? kind_of(g) : NULL;
    printf("%s: case %s, kind %s\n", g->path, name ? name : "(unnamed)", kind ? kind->name : "unknown");
    if (kind)
        status = kind->run(g);
    if (status == ZN_OK)
        leftovers(g);
    zn_free(g->compared);
    zn_json_free(&g->config_doc);
    zn_weights_close(g->file);
    return status;
}

int main(int argc, char **argv)
{
    zn_pool *pool;
    zn_device *device;
    int passed = 0, failed = 0, skipped = 0;
    const bool named = argc > 2 && strcmp(argv[1], "--device") == 0;
    const int first = named ? 3 : 1;
    if (argc <= first || zn_pool_new(0, &pool) != ZN_OK) {
        fprintf(stderr, "usage: check-golden [--device cuda] FILE.safetensors...\n");
        return 2;
    }
    if (zn_device_open(named ? argv[2] : NULL, &device) != ZN_OK) {
        fprintf(stderr, "check-golden: %s\n", zn_error_text());
        return 2;
    }
    for (int i = first; i < argc; i++) {
        golden g = { .path = argv[i], .pool = pool, .device = device };
        if (check(&g) != ZN_OK) {
            printf("%s: %s  FAIL\n", argv[i], zn_error_text());
            g.failed++;
        }
        if (g.passed + g.failed + g.skipped == 0) {
            printf("%s: nothing was compared  FAIL\n", argv[i]);
            g.failed++;
        }
        passed += g.passed;
        failed += g.failed;
        skipped += g.skipped;
    }
    zn_device_close(device);
    zn_pool_free(pool);
    if (named)
        printf("%d of %d steps ran on %s\n", golden_places.steps - golden_places.on_host, golden_places.steps, argv[2]);
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed || passed + skipped == 0 ? 1 : 0;
}
