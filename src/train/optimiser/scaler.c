/* Loss scaling. */
#include "train/optimiser/scaler.h"

bool zn_scaler_step(zn_scaler *s, bool finite)
{
    s->good = finite ? s->good + 1 : 0;
    if (!finite)
        s->scale *= 0.5f;
    if (s->good == s->interval) {
        s->scale *= 2;
        s->good = 0;
    }
    return finite;
}
