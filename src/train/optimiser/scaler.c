/* Loss scaling. */
#include "train/optimiser/scaler.h"

#include <math.h>

bool zn_scaler_step(zn_scaler *s, bool finite)
{
    s->good = finite ? s->good + 1 : 0;
    if (!finite)
        s->scale *= 0.5f;
    if (s->good == s->interval) {
        s->scale = fminf(2 * s->scale, ZN_SCALER_MOST);
        s->good = 0;
    }
    return finite;
}
