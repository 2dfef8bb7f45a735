/* Tables for rotary position embeddings. */
#include "nn/rope.h"

#include <math.h>

static double frequency(double theta, int width, int i) { return 1 / pow(theta, 2.0 * i / width); }

void zn_rope_table(const zn_rope_axes *axes, const int32_t *position, int64_t tokens, float *cosines, float *sines)
{
    int pairs = 0, first = 0;
    for (int a = 0; a < axes->count; a++)
        pairs += axes->width[a] / 2;
    for (int a = 0; a < axes->count; first += axes->width[a++] / 2)
        for (int i = 0; i < axes->width[a] / 2; i++) {
            const double turn = frequency(axes->theta, axes->width[a], i);
            for (int64_t t = 0; t < tokens; t++) {
                const float angle = (float)(position[t * axes->count + a] * turn);
                cosines[t * pairs + first + i] = cosf(angle);
                sines[t * pairs + first + i] = sinf(angle);
            }
        }
}
