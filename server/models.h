/* Models that stay loaded between jobs, within the memory budget: the one that was used longest ago leaves first.
 *
 *     sv_engine *e;
 *     ZN_TRY(sv_engine_take(job, job->model, &e));   // nobody else uses it until it is returned
 *     zn_restore(e->codec, ...);                     // progress goes to the job
 *     sv_engine_return(e);
 *
 * Names are those of `zenith models`, never paths: a request cannot open a file of the server. */
#ifndef ZN_SERVER_MODELS_H
#define ZN_SERVER_MODELS_H

#include "server/server.h"

/* What to do without a generator, for messages. */
#define SV_GET_GENERATOR "'zenith pull z-image-turbo' fetches one, docs/generate.md lists others"
#define SV_NO_GENERATOR  "no model that generates images is found; " SV_GET_GENERATOR

typedef struct sv_engine {
    const zn_model *model;
    const zn_model_info *info; /* NULL: a generator */
    zn_codec *codec;           /* one of these three */
    zn_diffae *diffae;
    zn_generator *generator;
    sv_job *job; /* that uses it now */
    struct sv_weights *weights;
    char *key;
    double bytes; /* estimated */
    double used;  /* ms */
    struct sv_engine *next;
} sv_engine;

sv_models *sv_models_start(sv_server *server);
void sv_models_stop(sv_models *models);

/* An engine for an autoencoder, restorer or diffusion autoencoder. name NULL: the first with encoder and decoder. */
ZN_MUST_USE zn_status sv_engine_take(sv_job *job, const char *name, sv_engine **out);
ZN_MUST_USE zn_status sv_generator_take(sv_job *job, const char *name, sv_engine **out);
void sv_engine_return(sv_engine *e);

/* The path of a name; NULL: there is no such model. The caller frees it. */
char *sv_model_path(sv_models *models, const char *name, int generator);
/* The only model found that could have made a latent; fails where there are none or several. The caller frees it. */
ZN_MUST_USE zn_status sv_model_for_latent(sv_models *models, const zn_latent *latent, char **name);

/* The file of more parts of a diffusion autoencoder: a name in the folders of models, or run:NAME; fails where there is
 * none. The caller frees it. */
ZN_MUST_USE zn_status sv_part_path(sv_models *models, const char *name, char **path);
int sv_model_is_loaded(sv_models *models, const char *name);

/* The members of GET /api/models. generator: the one where a request names none. */
void sv_models_json(sv_models *models, const char *generator, json *j);
/* Calls visit for the name of every generator. */
ZN_MUST_USE zn_status sv_generators_visit(void (*visit)(void *user, const char *name), void *user);
/* The generator where a request names none: the one chosen last, else z-image-turbo, else the first found. Empty: there
 * is none. */
void sv_default_generator(sv_server *s, char name[128]);
/* What a generator says about itself; all zero where it says nothing, or is not there. */
void sv_generator_about(sv_models *models, const char *name, zn_generator_about *out);
void sv_choose_generator(sv_server *s, const char *name);
/* The budget of one handle: half of the server's is for models, the rest for its workers. Each handle counts what a
 * device's driver takes, which is there once. */
size_t sv_handle_memory(const sv_server *s);
void sv_models_memory(sv_models *models, double *budget, double *loaded, int *count);

#endif
