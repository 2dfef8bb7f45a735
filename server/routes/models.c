/* /api/models */
#include "server/models.h"
#include "base/fail.h"
#include "server/routes/routes.h"
#include "ui/report.h"

#include <stdio.h>
#include <stdlib.h>

void sv_get_models(const sv_request *r, sv_answer *a)
{
    json j = { 0 };
    char generator[128] = "";
    sv_default_generator(sv_server_of(r), generator);
    json_open(&j, NULL, '{');
    sv_models_json(sv_server_of(r)->models, generator, &j);
    json_close(&j, '}');
    sv_answer_json(a, 200, &j);
}

/* Opens the model for the list, which is quick: weights stay in the file. */
static zn_status open_with(sv_models *models, const char *name, const char *classifier, zn_model **model)
{
    char *path = sv_model_path(models, name, 0), *more = NULL;
    zn_status status = path ? zn_model_open(path, model) : ZN_FAIL(ZN_ENOTFOUND, "no model is called '%.80s'", name);
    if (status == ZN_OK && classifier && *classifier)
        status = sv_part_path(models, classifier, &more);
    if (more)
        status = zn_model_extend(*model, more);
    free(path);
    free(more);
    return status;
}

static zn_status list(sv_models *models, const char *name, const char *classifier, json *j)
{
    zn_model *model = NULL;
    zn_diffae *d = NULL;
    zn_status status = open_with(models, name, classifier, &model);
    if (status == ZN_OK)
        status = zn_diffae_new(model, &(zn_options){ .threads = 1 }, &d);
    for (int i = 0; status == ZN_OK && i < zn_diffae_attribute_count(d); i++) {
        const char *attribute = zn_diffae_attribute(d, i);
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        json_text(j, NULL, attribute ? attribute : number);
    }
    zn_diffae_free(d);
    zn_model_free(model);
    return status;
}

void sv_get_attributes(const sv_request *r, sv_answer *a)
{
    json j = { 0 };
    json_open(&j, NULL, '{');
    json_open(&j, "attributes", '[');
    const zn_status status = list(sv_server_of(r)->models, r->argument[0], sv_query(r, "classifier"), &j);
    json_close(&j, ']');
    json_close(&j, '}');
    if (status == ZN_OK)
        sv_answer_json(a, 200, &j);
    else
        sv_answer_error(a, status == ZN_ENOTFOUND ? 404 : 400, "%s", zn_error_text());
    free(j.text);
}
