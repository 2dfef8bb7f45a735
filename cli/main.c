/* The program: the table of commands, the help, and the dispatch to a command. To add a command, write
 * cli/commands/NAME.c and add a line to the table. */
#include "commands.h"
#include "options/generate.h"
#include "ui/facts.h"
#include "ui/progress.h"
#include "ui/report.h"
#include "ui/wrap.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

/* clang-format off */
const command command_table[] = {
    { "encode", "IN... [-o OUT|DIR]", "encode images to latent files",
      "Encodes images (PNG, JPEG, WebP, HEIC, AVIF, TIFF, GIF, BMP) to latents. IN may be a folder: all its images, sorted "
      "by name. A result is a .safetensors, .npy or .latent (ComfyUI) file, or a .png for models with four latent "
      "channels. With --clip the images are the frames of one video, and the result is one latent; video files (.mp4, "
      "with FFmpeg) are accepted as well. A video autoencoder makes one latent frame of several images; an image "
      "autoencoder codes each by itself.",
      CMD_ENCODE, 1, -1, encode_run },
    { "decode", "IN... [-o OUT|DIR]", "decode latent files to images",
      "Decodes latents (.safetensors, .npy, .latent, or RGBA .png) to PNG, JPEG or WebP. IN may be a folder: all its "
      "latents, sorted by name. Without --model it uses the model named in the latent, else the only model found that "
      "fits. A video or a batch [N,C,H,W] becomes OUT_0001.png, OUT_0002.png, ...; a video can also become a video file "
      "if -o names one (.mp4, .mkv, .webm; with FFmpeg).",
      CMD_DECODE, 1, -1, decode_run },
    { "reconstruct", "IN... [-o OUT|DIR] [--compare]", "encode and decode images; report PSNR, SSIM and times",
      "Encodes and decodes images and reports how much is lost. IN may be a folder: all its images, sorted by name; or one "
      "video (.mp4, .mov, .mkv, .webm; with FFmpeg), whose result is a video with the audio, times and colours of the "
      "original. A diffusion autoencoder takes the centre of an image, scaled to the model's size, to its condition and noise and "
      "back.",
      CMD_RECONSTRUCT, 1, -1, reconstruct_run },
    { "restore", "IN... -o OUT|DIR [--task TASK]", "remove noise, impulse noise, JPEG artefacts or blur from photos",
      "Restores photos with the model zenith-restore, or the one given with --model. The network recognises the "
      "damage itself; --task is a hint. With --json it reports how much has changed: change_psnr, the PSNR of the result "
      "against the input, and detail, the share of the differences between neighbouring pixels that is left (below 1: smoother, above: sharper). IN may be a folder: all its images, sorted by name; or one video, whose audio is kept. PNG keeps alpha and 16 bits, WebP keeps "
      "alpha. mpirun -np N zenith restore ... divides the images among N processes, as it does for encode, decode and "
      "reconstruct.",
      CMD_RESTORE, 1, -1, restore_run },
    { "upscale", "IN... -o OUT|DIR [--scale 2|4]", "enlarge photos to two or four times their width and height",
      "Enlarges photos with the model zenith-upscale, or the one given with --model: by two with a bicubic filter, then the "
      "network sharpens them; --scale 4 does it twice. IN may be a folder: all its images, sorted by name; or one video, whose "
      "audio is kept. PNG keeps alpha and "
      "16 bits, WebP keeps alpha.",
      CMD_UPSCALE, 1, -1, upscale_run },
    { "edit", "IN -o OUT|DIR --attribute NAME [--amount A] [--model NAME]", "strengthen or weaken an attribute of an image",
      "Changes an attribute of an image with a diffusion autoencoder and its classifier. --list prints the attributes, with "
      "an image also their probabilities. An amount of 0 leaves the image as it is, 0.3 changes a face visibly, 1 any image "
      "strongly, and a negative amount does the opposite. The score is the probability that the written image shows the "
      "attribute. Large changes, such as a cat to a dog, need --imagine.",
      CMD_EDIT, 0, 1, edit_run },
    { "interpolate", "A B -o OUT|DIR [--model NAME] [--frames N]", "morph one image into another",
      "Generates images between two with a diffusion autoencoder: conditions are interpolated linearly, noise "
      "spherically.",
      CMD_INTERPOLATE, 2, 2, interpolate_run },
    { "sample", "-o OUT|DIR [--model NAME] [--count N]", "generate new images",
      "Generates new images with a diffusion autoencoder: its latent net samples conditions, and the autoencoder renders "
      "them. Plain diffusion models need no latent net. Image i uses seed + i.",
      CMD_SAMPLE, 0, 0, sample_run },
    { "generate", "\"PROMPT\" [-m NAME] -o OUT|DIR", "generate images from a prompt",
      "Generates images that show what a prompt describes. Without -m it uses z-image-turbo if it is installed, else the "
      "first model found: in a fresh installation the bundled zenith-mini, which draws portraits and pets of 128x128 from "
      "prompts such as \"a portrait of a smiling woman\" or \"a photo of a persian, a cat\". Its portraits look like small photos; its pets "
      "have fur, but no proper faces; it does not understand other prompts. For any prompt, zenith pull z-image-turbo fetches "
      "Z-Image-Turbo (6.3 GB; 512x512 to 2048x2048 pixels); the undistilled Z-Image works with --guidance and 28 or more --steps. "
      "A prompt of - is read from standard input; one that begins with a dash follows --. "
      "The seed is random and printed unless --seed is given; the same seed and settings give the same image for any "
      "number of threads. PNG, JPEG and WebP results store prompt and settings: zenith info prints them, and --from "
      "repeats them. docs/generate.md has examples, and the files to download.",
      CMD_GENERATE, 0, -1, generate_run },
    { "compare", "A B", "PSNR, SSIM, LPIPS and kept detail of two images, or the distance of two folders",
      "Compares B with the original A, an image of the same size: PSNR, SSIM, the largest difference, the perceptual "
      "distance LPIPS, and how much of the detail of A is left in B. Two folders or data sets: the distance of the sets, made "
      "like FID but with EfficientNet-Lite0. In JSON, psnr is null and identical is true for equal "
      "images. docs/scores.md explains the scores.",
      CMD_COMPARE, 2, 2, compare_run },
    { "info", "FILE... [--size WxH]", "describe a file: image, video, latent, weights, model, data set",
      "Describes files and folders of weights: architecture, tensors, parameters, and the arithmetic and memory they take "
      "at an image size. For the folder of a model of zenith generate: its parts, and what is missing. Accepts the name of "
      "a model or random:ARCHITECTURE as well.",
      CMD_INFO, 1, -1, info_run },
    { "convert", "IN OUT [--dtype TYPE]", "convert a checkpoint to .safetensors, or quantise it (.gguf, MLX)",
      "Copies the tensors of a checkpoint (.pth, .pt, .ckpt, .safetensors, .gguf, or the index.json or folder of shards) into "
      "one .safetensors file; of a folder with encoder.safetensors and decoder.safetensors, those of both. Nothing in the "
      "checkpoint is executed. --dtype int8 stores the large weights of any network, convolutions too, in 8 bits with a "
      "scale for each output; fp8, in 8-bit floating point with one scale for each tensor. With OUT.gguf, or with "
      "--dtype mlx4, it quantises the transformer of Z-Image or the Qwen3 text encoder for zenith generate. Norms and "
      "biases stay exact, and layers that suffer most get more bits. Takes less than 1 GB of memory.",
      CMD_CONVERT, 2, 2, convert_run },
    { "models", "", "list known architectures and available weights",
      "Lists the architectures of this build and the weights found in $ZENITH_MODELS (folders separated by colons), "
      "~/.local/share/zenith/models, ./weights and the installed ones. These come with the program: zenith-r (autoencoder, "
      "used if none is named), zenith-f2 (FLUX.2's latents), zenith-restore, zenith-restore-fast and zenith-upscale (photos), "
      "diffae-faces and diffae-pets (edit, interpolate, sample), zenith-mini (generate), lpips-squeeze (scores). zenith pull fetches others; or put their publisher's files "
      "into one of these folders unchanged: taesd_encoder.pth and taesd_decoder.pth of github.com/madebyollin/taesd become "
      "the model taesd. docs/weights.md lists them all.",
      CMD_MODELS, 0, 0, models_run },
    { "pull", "NAME... | --list", "fetch published weights",
      "Fetches the files of published models from their publishers, into the folder where other commands find them. "
      "Nothing else fetches anything. An interrupted download continues where it stopped, and a file gets its name only "
      "when it is complete and its hash is right. --list shows the models, their size and licence. $ZENITH_MIRROR names "
      "a mirror: https://HOST/PATH is then fetched from $ZENITH_MIRROR/HOST/PATH.",
      CMD_PULL, 0, -1, pull_run },
    { "bench", "[--model NAME] [--part PART] [--size WxH]", "time an encoder or decoder on this machine",
      "Times a part of a model on random input after two warm-up runs, and compares it with the machine's peak. Without "
      "--model it uses zenith-r, or a TAESD with random weights if no model is found. Of a diffusion autoencoder it times "
      "one step of the U-Net (decode) or the encoder, at the size of the model.",
      CMD_BENCH, 0, 0, bench_run },
    { "train", "[RECIPE] --data PATH -o RUN | --resume RUN", "train a model on a folder of images",
      "Trains a model as described by a recipe: one of those below, or a .yaml file. The run's folder receives the recipe "
      "as used, metrics, sample images, a report page, a checkpoint and the model. Ctrl-C saves; --resume continues with "
      "the same images as if the run had never been stopped; --data names them if they have moved. mpirun -np N zenith train ... divides the work among N processes.",
      CMD_TRAIN, 0, 1, train_run },
    { "dataset", "build DIR... -o SET.lmdb | info SET|DIR | show SET|DIR -o SHEET.png", "build and inspect data sets",
      "build packs photos into one .lmdb file: the centre square of each, scaled down to --size, or N random squares with "
      "--crops N. With --clips N it packs clips of N frames from videos and folders of videos or frames, for video "
      "autoencoders. info describes a data set or a folder and finds unreadable images. show draws a contact sheet.",
      CMD_DATASET, 0, -1, dataset_run },
    { "eval", "--model NAME --data PATH [--task TASK] [-o SCORES.csv]", "PSNR, SSIM, LPIPS and kept detail of a model on many images",
      "Evaluates a model on a folder of images or a data set. Autoencoders encode and decode. Restorers repair synthetic "
      "damage drawn from --seed, next to plain filters. Diffusion autoencoders are judged by round trips, attributes (--labels), edits and "
      "samples (--count). luma% and chrom% are the finest detail that is left. --gates reports what the block gates of an encoder prune, and the "
      "time of each layer.",
      CMD_EVAL, 0, 0, eval_run },
    { "distill", "--teacher NAME --student NAME --data PATH -o RUN | --resume RUN", "train a small model for a large one's latents",
      "Trains a small model for the latents of a large one, in stages: the encoder learns the teacher's latents, the "
      "decoder the teacher's images, then both together the images themselves. A teacher with only an encoder teaches an "
      "encoder. With --clips both learn from a data set of clips (dataset build --clips). The run's folder is like that of "
      "train.",
      CMD_DISTILL, 0, 1, distill_run },
    { "serve", "[--listen ADDRESS:PORT] [--api-key KEY]", "serve the studio's page and an HTTP API",
      "Serves the studio, a web page with tools for all of this, its API, and the APIs of OpenAI's images and of "
      "AUTOMATIC1111, until Ctrl-C. Models stay loaded within --memory. Only this machine can connect unless --listen names another address, "
      "which needs --api-key. Pages of other sites cannot use the server unless --cors names them. docs/server.md "
      "describes it.",
      CMD_SERVE, 0, 0, serve_run },
};
/* clang-format on */
const int command_count = sizeof command_table / sizeof *command_table;

static const command *find_command(const char *name)
{
    for (int i = 0; i < command_count; i++)
        if (!strcmp(name, command_table[i].name))
            return &command_table[i];
    return NULL;
}

static int unknown_command(const char *name)
{
    const char *names[sizeof command_table / sizeof *command_table];
    for (int i = 0; i < command_count; i++)
        names[i] = command_table[i].name;
    const char *near = nearest_word(name, names, command_count);
    return near ? usage_error(NULL, "unknown command '%s', did you mean '%s'?", name, near)
                : usage_error(NULL, "unknown command '%s'", name);
}

static int print_version(int as_json)
{
    facts f;
    facts_begin(&f, as_json);
    if (as_json)
        fact_text(&f, "version", zn_version());
    else
        say("zenith %s\n", zn_version());
    facts_end(&f);
    return 0;
}

static int help_all(void)
{
    say("usage: zenith COMMAND [FILES] [OPTIONS]\n\ncommands\n");
    for (int i = 0; i < command_count; i++)
        say_entry(12, command_table[i].name, command_table[i].summary);
    say_entry(12, "help", "print this text, or the options of a command: zenith help COMMAND");
    say_entry(12, "version", "print the version");
    say("\ncommon options\n");
    options_help(CMD_ALL, 1);
    say("\n");
    say_wrapped(
        0, 0,
        "A file called - is standard input; -o - of encode, decode, restore, upscale, edit, interpolate, sample and "
        "generate is standard output. zenith help COMMAND lists the options of a command. A value in "
        "parentheses is the "
        "default. Exit status: 0 success, 1 failure, 2 wrong usage.");
    return 0;
}

static void help_names(const char *title, const char *(*name_of)(int, const char **))
{
    const char *name, *description;
    say("%s\n", title);
    for (int i = 0; (name = name_of(i, &description)) != NULL; i++)
        say_entry(19, name, description);
    say("\n");
}

static int help_command(const command *c)
{
    char *usage = must_print("usage: zenith %s%s%s [OPTIONS]", c->name, *c->arguments ? " " : "", c->arguments);
    say_wrapped(0, (int)strlen("usage: zenith "), usage);
    free(usage);
    say("\n");
    say_wrapped(0, 0, c->details);
    say("\n");
    if (c->bit == CMD_TRAIN)
        help_names("recipes", zn_train_preset);
    if (c->bit == CMD_DISTILL)
        help_names("students", zn_distill_student);
    say("options\n");
    options_help(c->bit, 0);
    return 0;
}

/* zenith help --completions SHELL */
static int help_completions(const char *shell)
{
    if (shell && print_completions(shell))
        return 0;
    return usage_error(NULL, "--completions needs bash, zsh or fish%s%s%s", shell ? ", not '" : "", shell ? shell : "",
                       shell ? "'" : "");
}

/* zenith help [COMMAND]; --completions and --man-options are for scripts/generate.sh */
static int help_run(int argc, char **argv)
{
    if (argc > 1 && argv[0][0] != '-')
        return usage_error(NULL, "help is about one command, not '%s' and '%s'", argv[0], argv[1]);
    if (argc == 0 || !strcmp(argv[0], "help") || !strcmp(argv[0], "--help") || !strcmp(argv[0], "-h"))
        return help_all();
    if (!strcmp(argv[0], "--completions"))
        return help_completions(argc > 1 ? argv[1] : NULL);
    if (!strcmp(argv[0], "--man-options")) {
        print_manual_options();
        return 0;
    }
    const command *c = find_command(argv[0]);
    return c ? help_command(c) : unknown_command(argv[0]);
}

static int run_command(const command *c, int argc, char **argv)
{
    options o;
    int status = options_parse(&o, c, argc, argv);
    if (!status && o.help)
        status = help_command(c);
    else if (!status && o.version)
        status = print_version(o.json);
    else if (!status)
        status = c->run(&o);
    free(o.files);
    return status;
}

/* Searches the arguments directly, because a command line that cannot be parsed also gets its JSON object. */
static int asks_for_json(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
        if (!strcmp(argv[i], "--json"))
            return 1;
    return 0;
}

static int dispatch(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    if (argc < 2)
        return usage_error(NULL, "needs a command");
    if (!strcmp(word, "help") || !strcmp(word, "--help") || !strcmp(word, "-h"))
        return help_run(argc - 2, argv + 2);
    if (!strcmp(word, "version") || !strcmp(word, "--version") || !strcmp(word, "-V"))
        return print_version(asks_for_json(argc, argv));
    if (word[0] == '-')
        return usage_error(NULL, "the command comes before its options, not '%s'", word);
    const command *c = find_command(word);
    return c ? run_command(c, argc - 2, argv + 2) : unknown_command(word);
}

/* glibc keeps freed blocks of up to 32 MiB for later, once one of that size was freed: hundreds of megabytes beyond a
 * memory budget. With a fixed limit larger ones return to the system. */
static void return_freed_memory(void)
{
#if defined(__GLIBC__)
    enum { LARGEST_KEPT = 1 << 20 };
    mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT);
    mallopt(M_TRIM_THRESHOLD, 4 * LARGEST_KEPT);
#endif
}

int main(int argc, char **argv)
{
    return_freed_memory();
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is handled as a failed write */
    signal(SIGXFSZ, SIG_IGN); /* and so is a file that exceeds the user's size limit */
    int status = dispatch(argc, argv);
    if (asks_for_json(argc, argv))
        facts_print(status);
    status = report_finish(status);
    if (interrupted()) {
        /* After the cleanup, ends by the signal itself, so that the shell sees what stopped the program. */
        signal(interrupted(), SIG_DFL);
        raise(interrupted());
    }
    return status;
}
