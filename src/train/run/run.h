/* Training runs: one or more stages over the same images and the same model, saved so that nothing is lost when a run
 * is cut off. zn_train has one stage, zn_distill up to four.
 *
 *     zn_run r = { .options = options->run };
 *     status = set_up(&r);                          // r.recipe, r.model, r.stages
 *     status = zn_run_all(&r, status);
 *     zn_run_free(&r); */
#ifndef ZN_RUN_H
#define ZN_RUN_H

#include "graph/compute.h"
#include "io/dataset/dataset.h"
#include "text/tokenizer.h"
#include "train/data/captions.h"
#include "train/data/conditions.h"
#include "train/data/held_out.h"
#include "train/data/labels.h"
#include "train/data/loader.h"
#include "train/ranks/parcel.h"
#include "train/record/journal.h"
#include "train/run/trainer.h"
#include "train/score/yardstick.h"

#include <dirent.h>
#include <zenith/train.h>

enum { ZN_RUN_STAGES = 4 };

typedef struct zn_run_stage {
    const char *name;
    zn_goal goal;
    zn_recipe recipe; /* steps: of this stage */
} zn_run_stage;

/* Images that cannot be read. */
typedef struct zn_run_skips {
    uint8_t *marks; /* by image */
    zn_parcel untold;
    int64_t count; /* told */
} zn_run_skips;

/* What a run that learns from conditions has instead of images. */
typedef struct zn_run_conditions {
    zn_labels *labels;       /* of a classifier; else NULL */
    uint8_t *wanted;         /* by image; NULL: all are */
    bool needs_statistics;   /* the model has none of its conditions yet */
    float *mean, *deviation; /* the model's */
    zn_conditions *table;
    float *rows, *row_labels; /* of held-out images, normalised */
    int64_t row_count;
} zn_run_conditions;

/* What a run that learns from captions has besides; its table holds latents, its rows of a batch are tokens. */
typedef struct zn_run_captions {
    zn_captions *captions;
    zn_json_out vocabulary; /* bytes of a tokenizer.json */
    zn_tokenizer *tokenizer;
    float *ids;                  /* by image: ZN_ZIMAGE_BLOCK tokens, -1 after the last */
    float none[ZN_ZIMAGE_BLOCK]; /* those of the empty caption */
    zn_model *autoencoder;
    float *mean, *deviation; /* of each channel of latents */
} zn_run_captions;

/* What options of a call may say beside the recipe. */
enum {
    ZN_SAID_SEED = 1,
    ZN_SAID_FROM = 2,
    ZN_SAID_STEPS = 4,
    ZN_SAID_PRECISION = 8,
    ZN_SAID_LABELS = 16,
    ZN_SAID_CAPTIONS = 32,
};

/* How a resumed run was begun, as far as its folder tells beside the recipe. */
typedef struct zn_run_origin {
    bool tells_options;
    unsigned options;    /* ZN_SAID_.., of this and earlier calls */
    int ranks, parts;    /* of a step, in the last call; 0: not known */
    char name[400];      /* of the teacher, or of the labels' file; empty: it has neither */
    char digest[65];     /* of what was in it; empty: not known */
    char settings[2048]; /* of the call that began it, one a line: "lr=1e-3" */
    char device[24];     /* that computed it last, as asked for; empty: not known */
} zn_run_origin;

typedef struct zn_run {
    /* set by the caller */
    zn_run_options options;
    unsigned said;             /* by this call: ZN_SAID_.. */
    zn_recipe recipe;          /* goes into the folder */
    zn_model *model, *teacher; /* owned; the teacher may be NULL */
    zn_run_stage stages[ZN_RUN_STAGES];
    int stage_count;

    /* results */
    int64_t done;         /* steps of all stages */
    double loss;          /* NaN before the first step */
    zn_measures measures; /* the last evaluation of each */
    double coarse;        /* share of the operations of the last stage that are coarser than fp32; NaN: none shall be */
    zn_run_skips skips;

    /* inside */
    zn_context *context;
    zn_pool *pool;          /* the context's */
    zn_device *device;      /* the context's; NULL: the CPU */
    char on_device[24];     /* its name, as asked for by this call or an earlier one */
    zn_device_group *group; /* of the ranks' devices; NULL: there is none */
    zn_dataset *set;
    zn_loader *loader;
    zn_journal *journal;
    int stage; /* the one under way, and its parts */
    zn_trainer *trainer;
    zn_yardstick *yardstick;
    bool in_step;
    float *batch;  /* this rank's images of the step */
    float *inputs; /* restoring: what the network gets for them; NULL: the images */
    zn_held_out held;
    zn_run_conditions on; /* instead of the above, but for batch and inputs */
    zn_run_captions said_of;
    zn_run_origin origin;
    char data[4096];     /* what options.data is, where the call names none */
    char digest[65];     /* of the teacher's weights or the labels; empty: it has neither */
    DIR *lock;           /* on the folder, held by rank 0 */
    bool has_checkpoint; /* to resume from; a run cut off before its first one starts over */
    bool other_data;     /* resumed with other images than it had */
    int64_t first;       /* step this call began with */
    int64_t saved;       /* step of the checkpoint; -1: there is none */
    double started;
} zn_run;

/* The path of the run's file of that name. */
enum { ZN_RUN_PATH = 4096 };
void zn_run_path(const zn_run *r, const char *name, char path[ZN_RUN_PATH]);
/* With resume: recipe and origin in the folder; fails when there is nothing to resume, or another process is doing it.
 */
ZN_MUST_USE zn_status zn_run_read_recipe(zn_run *r);

/* The folder with the recipe in it, which must be new or empty unless the run is resumed. This or the above keeps other
 * processes out until it is unlocked. */
ZN_MUST_USE zn_status zn_run_make_folder(zn_run *r);
void zn_run_unlock_folder(zn_run *r);

/* Which images the run has, into its folder; if they are not those it had before, the caller is notified. */
ZN_MUST_USE zn_status zn_run_note_data(zn_run *r);
/* Of a resumed run whose call names no images: those it had, which the folder tells. Fails if they are gone. */
ZN_MUST_USE zn_status zn_run_recall_data(zn_run *r);

/* How the run was begun: what the folder tells of it, and this call's part of it, into the folder. If this is another
 * number of ranks or another device, so that sums will be rounded otherwise, the caller is notified. */
void zn_run_read_origin(zn_run *r);
ZN_MUST_USE zn_status zn_run_note_origin(zn_run *r);
/* asked, or where a resumed run's call asks for none (NULL), the device that it had. */
const char *zn_run_device(const zn_run *r, const char *asked);
/* Sets what the call that began a resumed run had set, then what this call sets. */
ZN_MUST_USE zn_status zn_run_set_again(const zn_run *r, zn_recipe *recipe);
/* Of a run's teacher or labels, read: fails if they are not those it was begun with. */
ZN_MUST_USE zn_status zn_run_check_teacher(zn_run *r);
ZN_MUST_USE zn_status zn_run_check_labels(zn_run *r);
ZN_MUST_USE zn_status zn_run_check_captions(zn_run *r);
/* zn_trainer_divide, but a resumed run keeps the parts it had where these ranks can share them. */
ZN_MUST_USE zn_status zn_run_divide(const zn_run *r, const zn_recipe *recipe, int *parts, int *batch);

/* Images that cannot be read: whom to tell of them; then, on all ranks together, those found since the last call go
 * to the caller's function. */
ZN_MUST_USE zn_status zn_run_prepare_skips(zn_run *r);
zn_skip zn_run_skip(zn_run *r);
ZN_MUST_USE zn_status zn_run_tell_skips(zn_run *r);
void zn_run_free_skips(zn_run *r);

/* The run's model, with fresh values, the teacher's or those of the weights named in the recipe, unless a checkpoint
 * will replace them. */
ZN_MUST_USE zn_status zn_run_new_model(zn_run *r, const zn_arch *arch, const zn_config *config, bool encodes,
                                       bool decodes);
/* The same for the network that the recipe names, with the sizes it gives. Not for a part that learns from conditions.
 */
ZN_MUST_USE zn_status zn_run_fresh_model(zn_run *r);
/* Whether the network can learn what the recipe says. */
ZN_MUST_USE zn_status zn_run_check_gates(const zn_recipe *k, const zn_config *config);
ZN_MUST_USE zn_status zn_run_check_task(const zn_recipe *k, const zn_arch *arch);
/* What learns from conditions starts with weights that are named. */
ZN_MUST_USE zn_status zn_run_check_from(const char *from, zn_part part);
/* The run's model when one part of it learns from conditions: an autoencoder, from the weights named in the recipe, and
 * that part, which is fresh where they do not have it. Of a classifier zn_run_read_labels comes before. */
ZN_MUST_USE zn_status zn_run_open_model(zn_run *r, zn_part part);
/* Puts the name of weights into a field of the recipe; NULL: the one that is there. A path becomes one that is good
 * from any folder. */
ZN_MUST_USE zn_status zn_run_set_path(char *field, size_t size, const char *path, const char *what);

/* Which of the options that all runs have say something. */
unsigned zn_run_said_by(const zn_run_options *options);
/* Puts the weights and the seed that the caller names into a recipe: with these a run begins, and keeps them. */
ZN_MUST_USE zn_status zn_run_set_start(zn_recipe *recipe, const zn_run_options *options);
/* With resume: fails if the run's recipe is not the one that is asked for: the run's own with what options of the call
 * say (name NULL), or one of that name. What options said at first, or say now, need not be in the latter. */
ZN_MUST_USE zn_status zn_run_check_asked(const zn_run *r, const zn_recipe *asked, const char *name);
/* Need an option's setting not be in a recipe that is asked for? If the folder does not tell: where it has its usual
 * value. */
bool zn_run_may_omit(const zn_run *r, unsigned option, bool usual);

/* `status` is that of setting up this rank's part of the above: all ranks run, or all fail. */
ZN_MUST_USE zn_status zn_run_all(zn_run *r, zn_status status);
void zn_run_free(zn_run *r);

/* Inside the run. What is left to do after a step has made new weights: measure, log, save, as the recipe says. For the
 * rank that keeps the folder. */
ZN_MUST_USE zn_status zn_run_record(zn_run *r);
/* ZN_ENUMERIC if the state is not finite: what was saved before stays. */
ZN_MUST_USE zn_status zn_run_save(zn_run *r);
zn_train_progress zn_run_progress(const zn_run *r);
/* Tells the caller how far it is (p NULL: not now); true if the run is to stop. */
bool zn_run_stops(const zn_run *r, const zn_train_progress *p);
bool zn_run_keeps(const zn_run *r); /* is this the rank that keeps the folder? */
int64_t zn_run_steps_before(const zn_run *r, int stage);

/* Of a run that learns from conditions: its labels; all that can be told wrong before the folder is made; on all ranks
 * together, the images encoded, or what the folder has of them; the next step's batch; scores; of a latent net
 * images of what it imagines, into the journal. */
ZN_MUST_USE zn_status zn_run_read_labels(zn_run *r);
ZN_MUST_USE zn_status zn_run_prepare_conditions(zn_run *r);
ZN_MUST_USE zn_status zn_run_encode(zn_run *r);
void zn_run_take_conditions(zn_run *r);
ZN_MUST_USE zn_status zn_run_score(const zn_run *r, zn_measures *out);
ZN_MUST_USE zn_status zn_run_show_imagined(zn_run *r);
void zn_run_free_conditions(zn_run *r);

/* Fills the run's table with what the encoder of a model makes of the images, scaled to that side, or takes it from the
 * folder's file of that name. */
ZN_MUST_USE zn_status zn_run_fill_table(zn_run *r, const char *file, const zn_model *encoder, int side);

/* The same of a run that learns from captions (run_captions.c), in that order; then its model, into the folder
 * (run_generator.c). */
#define ZN_RUN_VAE "model/vae/diffusion_pytorch_model.safetensors"
ZN_MUST_USE zn_status zn_run_read_captions(zn_run *r);
ZN_MUST_USE zn_status zn_run_prepare_captions(zn_run *r);
ZN_MUST_USE zn_status zn_run_encode_latents(zn_run *r);
void zn_run_take_latents(zn_run *r);
ZN_MUST_USE zn_status zn_run_measure_latents(zn_run *r, zn_measures *out);
ZN_MUST_USE zn_status zn_run_write_generator(const zn_run *r);
void zn_run_free_captions(zn_run *r);

/* Share of the time since the first step that was spent waiting for images. */
double zn_run_waited(const zn_run *r);

#endif
