/* What a run that learns from captions leaves to be used: a folder in the published layout.
 *
 *     model/model_index.json
 *     model/transformer/   text_encoder/   vae/   tokenizer/ */
#include "base/fail.h"
#include "base/file.h"
#include "train/run/run.h"

#include <stdio.h>

/* Writes text to a file of the model's folder, and forgets it. */
static zn_status write_text(const zn_run *r, const char *name, zn_json_out *text)
{
    char path[ZN_RUN_PATH];
    zn_run_path(r, name, path);
    const zn_status status =
        text->failed ? ZN_FAIL(ZN_ENOMEM, "out of memory for %s", name) : zn_file_write(path, text->bytes, text->size);
    zn_json_out_free(text);
    return status;
}

/* With the default settings of zenith generate. The size is that of the images; the others looked best with the bundled
 * model (docs/results/mini.md). */
static zn_status write_index(const zn_run *r)
{
    const int side = r->recipe.size;
    zn_json_out t = { 0 };
    zn_json_out_format(&t,
                       "{\n  \"_class_name\": \"ZImagePipeline\",\n  \"_generate\": {\"width\": %d, \"height\": %d, "
                       "\"steps\": 20, \"guidance\": 2, \"shift\": 1.5}\n}\n",
                       side, side);
    return write_text(r, "model/model_index.json", &t);
}

/* Numbers of a config.json, one a line. */
typedef struct entry {
    const char *name;
    double value;
} entry;

static void write_config(zn_json_out *t, const char *key, const char *class, const entry *list, int count)
{
    zn_json_out_format(t, "{\n  \"%s\": \"%s\"", key, class);
    for (int i = 0; i < count; i++)
        zn_json_out_format(t, ",\n  \"%s\": %.9g", list[i].name, list[i].value);
}

static zn_status write_transformer(const zn_run *r, const zn_zimage_form *k)
{
    const entry list[] = { { "dim", k->dim },
                           { "n_layers", k->layers },
                           { "n_refiner_layers", k->refiners },
                           { "n_heads", k->heads },
                           { "n_kv_heads", k->heads },
                           { "in_channels", k->channels },
                           { "cap_feat_dim", k->caption },
                           { "norm_eps", (double)k->eps },
                           { "rope_theta", k->theta },
                           { "t_scale", k->time_scale } };
    char path[ZN_RUN_PATH];
    zn_json_out t = { 0 };
    write_config(&t, "_class_name", "ZImageTransformer2DModel", list, sizeof list / sizeof *list);
    zn_json_out_format(&t, ",\n  \"axes_dims\": [%d, %d, %d]\n}\n", k->axes[0], k->axes[1], k->axes[2]);
    ZN_TRY(write_text(r, "model/transformer/config.json", &t));
    zn_run_path(r, "model/transformer/diffusion_pytorch_model.safetensors", path);
    return zn_trainer_export_part(path, r->trainer, ZN_DECODER);
}

static zn_status write_text_encoder(const zn_run *r, const zn_qwen3_form *k)
{
    const entry list[] = {
        { "vocab_size", k->vocabulary },     { "hidden_size", k->hidden },         { "num_hidden_layers", k->layers },
        { "num_attention_heads", k->heads }, { "num_key_value_heads", k->groups }, { "head_dim", k->head },
        { "intermediate_size", k->inner },   { "rms_norm_eps", (double)k->eps },   { "rope_theta", k->theta }
    };
    char path[ZN_RUN_PATH];
    zn_json_out t = { 0 };
    write_config(&t, "model_type", "qwen3", list, sizeof list / sizeof *list);
    zn_json_out_format(&t, "\n}\n");
    ZN_TRY(write_text(r, "model/text_encoder/config.json", &t));
    zn_run_path(r, "model/text_encoder/model.safetensors", path);
    return zn_trainer_export_part(path, r->trainer, ZN_ENCODER);
}

static void write_numbers(zn_json_out *t, const char *name, const float *values, int count)
{
    zn_json_out_format(t, ",\n  \"%s\": [", name);
    for (int i = 0; i < count; i++)
        zn_json_out_format(t, "%s%.9g", i ? ", " : "", (double)values[i]);
    zn_json_out_format(t, "]");
}

/* The autoencoder as it is, with the numbers that its latents are normalised by. */
static zn_status write_autoencoder(const zn_run *r)
{
    const zn_model *m = r->said_of.autoencoder;
    char path[ZN_RUN_PATH];
    zn_json_out t = { 0 };
    zn_json_out_format(&t, "{\n  \"latent_channels\": %d", m->config.latent);
    write_numbers(&t, "latents_mean", r->said_of.mean, m->config.latent);
    write_numbers(&t, "latents_std", r->said_of.deviation, m->config.latent);
    zn_json_out_format(&t, "\n}\n");
    ZN_TRY(write_text(r, "model/vae/config.json", &t));
    zn_run_path(r, ZN_RUN_VAE, path);
    return zn_exists(path) ? ZN_OK : zn_model_export(path, m);
}

static zn_status write_tokenizer(const zn_run *r)
{
    char path[ZN_RUN_PATH];
    zn_run_path(r, "model/tokenizer/tokenizer.json", path);
    return zn_file_write(path, r->said_of.vocabulary.bytes, r->said_of.vocabulary.size);
}

zn_status zn_run_write_generator(const zn_run *r)
{
    static const char *const folders[] = { "model", "model/transformer", "model/text_encoder", "model/vae",
                                           "model/tokenizer" };
    const zn_zimage_mini_form *form = zn_form_of(&r->model->config);
    char path[ZN_RUN_PATH];
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        zn_run_path(r, folders[i], path);
        ZN_TRY(zn_folder_make(path));
        zn_remove_temporaries(path);
    }
    ZN_TRY(write_index(r));
    ZN_TRY(write_transformer(r, &form->dit));
    ZN_TRY(write_text_encoder(r, &form->text));
    ZN_TRY(write_tokenizer(r));
    return write_autoencoder(r);
}
