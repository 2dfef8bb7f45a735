/* Runs that learn from conditions. */
#include "condition_runs.h"

#include "base/alloc.h"
#include "base/file.h"
#include "model_file.h"
#include "models/diffae/diffae.h"
#include "train_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static int look(void *user, const zn_train_progress *p)
{
    watch *w = user;
    if (p->to_encode) {
        w->encoded = p->encoded;
        return w->stop_encoding && p->encoded == w->stop_encoding;
    }
    w->first += p->step <= 10 ? p->loss / 10 : 0;
    w->last += p->step > p->steps - 10 ? p->loss / 10 : 0;
    return w->stop && p->step == w->stop;
}

zn_status start(const order *o, watch *w, zn_train_result *r)
{
    char run[128], data[128], recipe[128], from[128], labels[128];
    snprintf(run, sizeof run, "%s/%s", folder, o->name);
    snprintf(data, sizeof data, "%s/pictures", folder);
    snprintf(recipe, sizeof recipe, "%s/%s.yaml", folder, o->name);
    snprintf(from, sizeof from, "%s/%s", folder, o->from ? o->from : "");
    snprintf(labels, sizeof labels, "%s/%s", folder, o->labels ? o->labels : "");
    if (!o->resume)
        write_text(recipe, o->recipe);
    const zn_train_options t = { .recipe = o->resume ? NULL : recipe,
                                 .labels = o->labels ? labels : NULL,
                                 .run = { .from = o->from ? from : NULL,
                                          .data = data,
                                          .folder = run,
                                          .resume = o->resume,
                                          .compute = &(zn_options){ .threads = o->threads ? o->threads : 1 },
                                          .progress = look,
                                          .user = w } };
    *w = (watch){ .stop = w->stop, .stop_encoding = w->stop_encoding };
    return zn_train(&t, r);
}

void finish(const order *o, watch *w, zn_train_result *r)
{
    if (start(o, w, r) != ZN_OK)
        fail_msg("%s: %s", o->name, zn_error_text());
}

void same_models(const char *a, const char *b)
{
    char x[64], y[64];
    snprintf(x, sizeof x, "%s/model.safetensors", a);
    snprintf(y, sizeof y, "%s/model.safetensors", b);
    same_tensors(in_folder(x), in_folder(y));
    snprintf(x, sizeof x, "%s/checkpoint.safetensors", a);
    snprintf(y, sizeof y, "%s/checkpoint.safetensors", b);
    same_tensors(in_folder(x), in_folder(y));
}

void write_labels(const char *name)
{
    char text[1024] = "file,flat,odd\n";
    for (int n = 0; n < PICTURES; n++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "p%02d.png,%d,%d\n", n, n % 5 == 0, n % 2);
    write_text(in_folder(name), text);
}

/* An autoencoder of 32x32, as a first stage leaves it. */
static void write_autoencoder(const char *name)
{
    const zn_config *preset;
    zn_model *m;
    const zn_arch *arch = zn_arch_find("celeba64", &preset);
    zn_config k = *preset;
    zn_diffae_form *form = zn_form_own(&k, sizeof *form);
    form->unet.levels = form->encoder.levels = 2;
    form->unet.attention[1] = form->encoder.attention[1] = true;
    zn_diffae_resize(form, 8, WIDTH);
    k.latent = WIDTH;
    k.size = 32;
    k.downscale = 2;
    assert_int_equal(zn_model_new(arch, &k, &m), ZN_OK);
    assert_int_equal(zn_model_random_part(m, ZN_ENCODER, 1), ZN_OK);
    assert_int_equal(zn_model_random_part(m, ZN_DECODER, 1), ZN_OK);
    size_t size;
    uint8_t *bytes = model_bytes(m, &size);
    assert_int_equal(zn_file_write(in_folder(name), bytes, size), ZN_OK);
    zn_free(bytes);
    zn_model_free(m);
}

int conditions_set_up(void **state)
{
    if (files_set_up(state))
        return 1;
    write_labels("labels.csv");
    assert_int_equal(zn_folder_make(in_folder("auto")), ZN_OK);
    write_autoencoder("auto/model.safetensors");
    return 0;
}

zn_model *open_run(const char *name)
{
    char path[64];
    zn_model *m;
    snprintf(path, sizeof path, "%s/model.safetensors", name);
    assert_int_equal(zn_model_open(in_folder(path), &m), ZN_OK);
    return m;
}

void condition_of(zn_diffae *d, int n, float cond[WIDTH])
{
    char name[32];
    zn_image *photo, *square;
    snprintf(name, sizeof name, "pictures/p%02d.png", n);
    assert_int_equal(zn_image_read(in_folder(name), NULL, &photo), ZN_OK);
    assert_int_equal(zn_diffae_fit(d, photo, &square), ZN_OK);
    assert_int_equal(zn_diffae_encode(d, square, cond), ZN_OK);
    zn_image_free(photo);
    zn_image_free(square);
}
