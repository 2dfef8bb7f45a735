/* Moving through conditions and noise. */
#include "diffusion/edit.h"

#include <math.h>

void zn_lerp(const float *a, const float *b, double at, float *out, int64_t count)
{
    const float t = (float)at;
    for (int64_t i = 0; i < count; i++)
        out[i] = (1 - t) * a[i] + t * b[i];
}

static double dot(const float *a, const float *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

double zn_slerp(const float *a, const float *b, double at, float *out, int64_t count)
{
    const double lengths = sqrt(dot(a, a, count)) * sqrt(dot(b, b, count));
    const double cosine = lengths > 0 ? dot(a, b, count) / lengths : 1;
    const double angle = acos(fmin(fmax(cosine, -1), 1)), sine = sin(angle);
    if (sine < 1e-6) {
        zn_lerp(a, b, at, out, count);
        return angle;
    }
    const float left = (float)(sin((1 - at) * angle) / sine), right = (float)(sin(at * angle) / sine);
    for (int64_t i = 0; i < count; i++)
        out[i] = left * a[i] + right * b[i];
    return angle;
}

void zn_move_condition(const float *cond, const float *mean, const float *deviation, const float *direction,
                       double strength, float *out, int width)
{
    const double length = fmax(sqrt(dot(direction, direction, width)), 1e-12);
    const float step = (float)(strength * sqrt(width) / length);
    for (int i = 0; i < width; i++) {
        const float z = (cond[i] - mean[i]) / deviation[i] + step * direction[i];
        out[i] = z * deviation[i] + mean[i];
    }
}
