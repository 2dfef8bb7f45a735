/* Small video autoencoders with random weights, and images for them. */
#ifndef ZN_TESTS_VIDEO_MODELS_H
#define ZN_TESTS_VIDEO_MODELS_H

#include "models/model.h"
#include "models/taehv/taehv.h"
#include "models/wan/wan.h"

#include <zenith/image.h>

/* which: 0 is built like Wan 2.1, at 1/8; 1 like Wan 2.2, at 1/16. Three latent channels. */
zn_model *small_wan(int which);
/* The same with `width` channels in the first layer. */
zn_model *wider_wan(int which, int width);
/* Wan 2.1 with a quarter of its channels, all layers. */
zn_model *quarter_wan(void);
/* patch: 1 or 2, at 1/8 or 1/16. Five latent channels. */
zn_model *small_taehv(int patch);
/* taew2_1, all channels. */
zn_model *whole_taehv(void);

/* All of these, by number. */
enum { SMALL_VIDEOS = 4 };
zn_model *small_video(int which);

/* The same number gives the same image. */
zn_image *small_picture(int width, int height, int number);

#endif
