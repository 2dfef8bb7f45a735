/* The program: the table of commands, help, and the way from argv to a command's run function. To add a command, write
 * cli/NAME.c and add a line to the table. */
#include "commands.h"
#include "ui/facts.h"
#include "ui/generate.h"
#include "ui/progress.h"
#include "ui/report.h"
#include "ui/wrap.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
const command command_table[] = {
    { "encode", "IN... [-o OUT|DIR]", "images to latent files",
      "Encodes images (PNG, JPEG, WebP) to latents. IN may be a folder: all its images, by name. A result is a "
      ".safetensors, .npy or .latent (ComfyUI) file, or a .png for models with four latent channels. With --clip all "
      "pictures are the frames of one clip, for a video autoencoder, and the result is one latent; films (.mp4, with "
      "FFmpeg) are taken like pictures.",
      CMD_ENCODE, 1, -1, encode_run },
    { "decode", "IN... [-o OUT|DIR]", "latent files to images",
      "Decodes latents (.safetensors, .npy, .latent, or RGBA .png) to PNG, JPEG or WebP. IN may be a folder: all its "
      "latents, by name. Without --model the model named in the latent is used, else the only one found that fits. A clip "
      "or a batch [N,C,H,W] becomes OUT_0001.png, OUT_0002.png, ..., a clip also a film if -o names one (.mp4, .mkv, "
      ".webm; with FFmpeg).",
      CMD_DECODE, 1, -1, decode_run },
    { "reconstruct", "IN... [-o OUT|DIR] [--compare]", "round trip of images, with PSNR, SSIM and times",
      "Encodes and decodes images and tells how much of them survived. IN may be a folder: all its images, by name. Of a "
      "diffusion autoencoder: the middle of a picture, scaled to the model's size, to its condition and its noise, and "
      "back.",
      CMD_RECONSTRUCT, 1, -1, reconstruct_run },
    { "restore", "IN... -o OUT|DIR [--task TASK]", "noise, wrong pixels or blur taken out of photos",
      "Restores photos with the model zenith-restore, or the one given by --model. It sees for itself what is wrong; "
      "--task tells it. IN may be a folder: all its images, by name. PNG keeps alpha and 16 bits, WebP alpha.",
      CMD_RESTORE, 1, -1, restore_run },
    { "edit", "IN -o OUT|DIR --model NAME --attribute NAME [--amount A]", "a picture with more or less of an attribute",
      "Moves a picture along an attribute that the classifier of a diffusion autoencoder knows: --list names them, with a "
      "picture also how likely it shows them. An amount of 0 is the picture itself, 0.3 a plain change, a negative one a "
      "change to the opposite.",
      CMD_EDIT, 0, 1, edit_run },
    { "interpolate", "A B -o OUT|DIR --model NAME [--frames N]", "from one picture to another in small steps",
      "Pictures between two, by a diffusion autoencoder: conditions on a line, noises on a circle.",
      CMD_INTERPOLATE, 2, 2, interpolate_run },
    { "sample", "-o OUT|DIR --model NAME [--latent FILE] [--count N]", "new pictures of a diffusion autoencoder",
      "Pictures that there are none of yet: the latent net of a diffusion autoencoder makes conditions of noise, the "
      "autoencoder pictures of them. The first picture is that of --seed, the next one that of the next seed, and so on.",
      CMD_SAMPLE, 0, 0, sample_run },
    { "compare", "A B", "PSNR, SSIM and largest difference of two images",
      "Compares two images of the same size. In JSON, psnr is null and identical is true for equal images.",
      CMD_COMPARE, 2, 2, compare_run },
    { "info", "FILE... [--size WxH]", "what a file is: image, video, latent, weights, model, data set",
      "Tells what a file or a folder of weights is: architecture, tensors, parameters, and the arithmetic and memory "
      "it takes at an image size. A model's name or random:ARCHITECTURE works too.",
      CMD_INFO, 1, -1, info_run },
    { "convert", "IN OUT [--dtype TYPE]", "checkpoints (.pth, .pt, .ckpt, .safetensors) to .safetensors",
      "Copies the tensors of a checkpoint into a .safetensors file. Nothing in the checkpoint is executed.",
      CMD_CONVERT, 2, 2, convert_run },
    { "models", "", "architectures known and weights found",
      "Lists the architectures this build knows and the weights it finds in $ZENITH_MODELS (folders separated by "
      "colons), ~/.local/share/zenith/models, ./weights and what is installed. zenith-r and zenith-restore come with the "
      "program. To add others, put their publisher's files into one of these folders as they are: taesd_encoder.pth and "
      "taesd_decoder.pth of github.com/madebyollin/taesd become the model taesd. docs/weights.md lists them all.",
      CMD_MODELS, 0, 0, models_run },
    { "bench", "[--model NAME] [--part PART] [--size WxH]", "speed of encoder or decoder on this machine",
      "Times a part of a model on random input, after two warm-up runs, and compares it with what the machine can "
      "do. Without --model it takes the first model found, or a TAESD with random weights if there is none.",
      CMD_BENCH, 0, 0, bench_run },
    { "train", "[RECIPE] --data PATH -o RUN [--resume]", "train a model on a folder of pictures",
      "Trains by a recipe: one of those below, or a .yaml file. The run's folder gets the recipe as used, "
      "metrics, sample pictures, a report page, a checkpoint and the model. Ctrl-C saves; --resume goes on as if the "
      "run had never been stopped. mpirun -np N zenith train ... shares the work between N processes.",
      CMD_TRAIN, 0, 1, train_run },
    { "dataset", "build DIR... -o SET.lmdb | info SET|DIR | show SET|DIR -o SHEET.png", "data sets to train on and to judge by",
      "build packs photos into one .lmdb file: of each the middle square, scaled down to --size, or --crops N squares at "
      "random places and scales. info tells what is in a data set or a folder and finds what cannot be read. show draws "
      "pictures of it on a contact sheet.",
      CMD_DATASET, 0, -1, dataset_run },
    { "eval", "--model NAME --data PATH [--task TASK] [-o SCORES.csv]", "PSNR, SSIM and MS-SSIM of a model on many pictures",
      "Judges a model on a folder of pictures or a data set. Autoencoders make a round trip. Restorers repair damage that "
      "--seed decides, beside plain filters. --gates shows what the block gates of an encoder prune, and the time of each "
      "layer.",
      CMD_EVAL, 0, 0, eval_run },
    { "distill", "--teacher NAME --student NAME --data PATH -o RUN [--resume]", "a small model for a large one's latents",
      "Trains a small model to understand the latents of a large one, in stages: its encoder learns the teacher's "
      "latents, its decoder the teacher's pictures, then both together the pictures themselves. A teacher with an encoder "
      "alone teaches an encoder. The run's folder is like that of train.",
      CMD_DISTILL, 0, 0, distill_run },
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

static int print_version(void)
{
    say("zenith %s\n", zn_version());
    return 0;
}

static int help_all(void)
{
    say("usage: zenith COMMAND [FILES] [OPTIONS]\n\ncommands\n");
    for (int i = 0; i < command_count; i++)
        say_entry(12, command_table[i].name, command_table[i].summary);
    say_entry(12, "help", "this text, or the options of a command: zenith help COMMAND");
    say_entry(12, "version", "the version of the program");
    say("\ncommon options\n");
    options_help(CMD_ALL, 1);
    say("\n");
    say_wrapped(0, 0,
                "A file called - is standard input; -o - of encode, decode, restore, edit, interpolate and sample is "
                "standard output. zenith help COMMAND lists the options of a command. A value in parentheses is the "
                "default. Exit status: 0 done, 1 something failed, 2 wrong usage.");
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
    if (argc == 0 || !strcmp(argv[0], "help"))
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
        status = print_version();
    else if (!status)
        status = c->run(&o);
    free(o.files);
    return status;
}

static int dispatch(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    if (argc < 2)
        return usage_error(NULL, "needs a command");
    if (!strcmp(word, "help") || !strcmp(word, "--help") || !strcmp(word, "-h"))
        return help_run(argc - 2, argv + 2);
    if (!strcmp(word, "version") || !strcmp(word, "--version") || !strcmp(word, "-V"))
        return print_version();
    if (word[0] == '-')
        return usage_error(NULL, "the command comes before its options, not '%s'", word);
    const command *c = find_command(word);
    return c ? run_command(c, argc - 2, argv + 2) : unknown_command(word);
}

/* Looked for by hand, because also a command line that cannot be parsed gets its JSON object. */
static int asks_for_json(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
        if (!strcmp(argv[i], "--json"))
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is a failed write like any other */
    signal(SIGXFSZ, SIG_IGN); /* and so is a file that has reached the user's limit */
    int status = dispatch(argc, argv);
    if (asks_for_json(argc, argv))
        facts_print(status);
    status = report_finish(status);
    if (interrupted()) {
        /* The shell should see that it was the signal that ended this, after everything is tidy. */
        signal(interrupted(), SIG_DFL);
        raise(interrupted());
    }
    return status;
}
