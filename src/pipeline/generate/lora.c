/* LoRAs of a generator. */
#include "pipeline/generate/generate.h"

#include "base/fail.h"

zn_status zn_generator_add_lora(zn_generator *g, const char *path, double strength)
{
    (void)g;
    (void)strength;
    return ZN_FAIL(ZN_EUNSUPPORTED, "%s: this build cannot apply LoRAs yet", path);
}
