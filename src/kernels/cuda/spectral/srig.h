/* One window of the SRIG gate (specification B2). Included only by .cu files. */
#ifndef ZN_CUDA_SRIG_H
#define ZN_CUDA_SRIG_H

enum { SRIG_ROUNDS = 3, SRIG_REACH = 2, SRIG_TAPS = 5 };

struct srig_window {
    float r, d, nw, cosine, gain, act, g;
};

/* est: the estimates of the channels around one; w, b: the parameters of that channel. */
static inline __device__ srig_window srig_look(const float *est, const float *w, float b)
{
    srig_window k;
    float square = 0, dot = 0, norm = 0;
#pragma unroll
    for (int j = 0; j < SRIG_TAPS; j++) {
        square += est[j] * est[j];
        dot += w[j] * est[j];
        norm += w[j] * w[j];
    }
    k.r = sqrtf(square / 5 + 1e-10f);
    k.d = dot;
    k.nw = sqrtf(norm + 1e-8f);
    k.cosine = dot / (k.r * k.nw + 1e-6f);
    k.gain = sqrtf(k.r + 1e-10f);
    k.act = k.cosine * k.gain + b;
    k.g = 1 / (1 + expf(-(k.act > 0 ? k.act : 0)));
    return k;
}

#endif
