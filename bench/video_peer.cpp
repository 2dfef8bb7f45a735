/* Time and memory of stable-diffusion.cpp's video autoencoders, for bench/video --peer: a clip of random pixels or
 * latents through one part of a file. Prints what clip-times prints. The first run loads the weights and is not timed,
 * unless it is the only one.
 *
 *     video_peer FILE wan21-vae|wan22-vae|taew2_1 encode|decode WxH FRAMES THREADS RUNS
 *
 * Built against a built checkout SD of stable-diffusion.cpp, which has no program for its autoencoders alone:
 *
 *     g++ -O2 -std=gnu++17 -DGGML_MAX_NAME=160 -DGGML_USE_CPU -I SD -I SD/src -I SD/src/core -I SD/include \
 *         -I SD/thirdparty -I SD/ggml/include bench/video_peer.cpp SD/build/libstable-diffusion.a \
 *         SD/build/ggml/src/libggml.a SD/build/ggml/src/libggml-cpu.a SD/build/ggml/src/libggml-base.a \
 *         -lgomp -ldl -o video_peer */
#include "model/vae/wan_vae.hpp"

#include "model/vae/tae.hpp"
#include "model_manager.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static double seconds(clockid_t clock)
{
    timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static sd::Tensor<float> random_input(bool decode, int width, int height, int frames, bool large)
{
    const int scale = large ? 16 : 8;
    const std::vector<int64_t> latent = { width / scale, height / scale, (frames + 3) / 4, large ? 48 : 16, 1 };
    sd::Tensor<float> x(decode ? latent : std::vector<int64_t>{ width, height, frames, 3, 1 });
    uint32_t state = 1;
    for (int64_t i = 0; i < x.numel(); i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = decode ? (float)(int32_t)state * 0x1p-31f : (float)(state >> 24) / 255.0f;
    }
    return x;
}

int main(int count, char **arguments)
{
    int width = 0, height = 0;
    if (count < 8 || sscanf(arguments[4], "%dx%d", &width, &height) != 2)
        return fprintf(stderr, "usage: video_peer FILE MODEL encode|decode WxH FRAMES THREADS RUNS\n"), 2;
    const std::string model = arguments[2];
    const bool decode = std::string(arguments[3]) == "decode", tiny = model == "taew2_1", large = model == "wan22-vae";
    const int frames = atoi(arguments[5]), threads = atoi(arguments[6]), runs = atoi(arguments[7]);
    const SDVersion version = large ? VERSION_WAN2_2_TI2V : VERSION_WAN2;
    ggml_backend_t backend = sd_backend_cpu_init();
    auto manager = std::make_shared<ModelManager>();
    if (!manager->loader().init_from_file_and_convert_name(arguments[1], tiny ? "tae." : "vae."))
        return fprintf(stderr, "%s cannot be read\n", arguments[1]), 1;
    const auto &tensors = manager->loader().get_tensor_storage_map();
    std::shared_ptr<VAE> vae;
    if (tiny)
        vae = std::make_shared<TinyVideoAutoEncoder>(backend, tensors, "decoder", false, version, manager);
    else
        vae = std::make_shared<WAN::WanVAERunner>(backend, tensors, "first_stage_model", false, version, manager);
    if (!manager->register_runner_params("vae", *vae, ModelManager::ResidencyMode::ParamBackend, backend, backend) ||
        !manager->validate_registered_tensors())
        return fprintf(stderr, "%s does not have the tensors of %s\n", arguments[1], model.c_str()), 1;
    const sd::Tensor<float> x = random_input(decode, width, height, frames, large);
    double wall = 0, cpu = 0;
    for (int i = 0; i < runs; i++) {
        wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
        const sd::Tensor<float> y = decode ? vae->decode(threads, x, {}, true) : vae->encode(threads, x, {});
        wall = seconds(CLOCK_MONOTONIC) - wall, cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
        if (y.empty())
            return 1;
    }
    rusage use;
    getrusage(RUSAGE_SELF, &use);
    printf("{\"runs\": [{\"wall\": %.4f, \"cpu\": %.4f}], \"frames\": %d, \"peak_mib\": %ld}\n", wall, cpu, frames,
           use.ru_maxrss / 1024);
    fflush(stdout);
    _exit(0); /* its destructors end in a fault */
}
