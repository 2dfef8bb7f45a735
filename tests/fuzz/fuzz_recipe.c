/* The reader of recipes: what it accepts is written and read again unchanged. */
#include "train/recipe/recipe.h"
#include "train/recipe/yaml.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zn_recipe recipe, copy;
    char text[ZN_RECIPE_TEXT], again[ZN_RECIPE_TEXT];
    if (zn_recipe_parse((const char *)data, size, "fuzz", &recipe) != ZN_OK)
        return 0;
    if (!zn_yaml_can_hold(recipe.model) || !zn_yaml_can_hold(recipe.from) || !zn_yaml_can_hold(recipe.labels) ||
        !zn_yaml_can_hold(recipe.teacher))
        return 0; /* refused before a run is made */
    const int length = zn_recipe_text(&recipe, text, sizeof text);
    if (length < 0 || (size_t)length >= sizeof text)
        abort();
    if (zn_recipe_parse(text, (size_t)length, "copy", &copy) != ZN_OK)
        abort();
    if (zn_recipe_text(&copy, again, sizeof again) != length || memcmp(text, again, (size_t)length) != 0)
        abort();
    return 0;
}
