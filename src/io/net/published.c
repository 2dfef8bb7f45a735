/* The table of published weights. A check is what the publisher states: the blob of a git repository at a commit, or a
 * SHA-256; docs/weights.md says where each comes from. Sizes without a check are approximate. */
#include <zenith/pull.h>

#include <stdlib.h>
#include <string.h>

#define TAESD       "https://raw.githubusercontent.com/madebyollin/taesd/5cccb12dc72074a4be35680c3b108548a7c69978/"
#define TAEHV       "https://raw.githubusercontent.com/madebyollin/taehv/1f14a568f24bf8811e0a0ac601613e04fc1581e8/"
#define HF(repo)    "https://huggingface.co/" repo "/resolve/main/"
#define COMFY_VAE   HF("Comfy-Org/z_image_turbo") "split_files/vae/ae.safetensors"
#define COMFY_CHECK "sha256:afc8e28272cd15db3919bacdb6918ce9c1ed22e96cb12c4d5ed0fba823529e38"
#define ABOUT_MB(n) (n) * INT64_C(1000000), 0
#define EXACT(n)    INT64_C(n), 1

#define FILES(name, ...) static const zn_published_file name[] = { __VA_ARGS__ }

/* clang-format off */
FILES(taesd,
    { TAESD "taesd_encoder.pth", "taesd_encoder.pth", ABOUT_MB(5), "git:65f85afc58480128926e52086fbf0fdc61c2c9b5" },
    { TAESD "taesd_decoder.pth", "taesd_decoder.pth", ABOUT_MB(5), "git:5915a429fc08eba4adf62bf74f96705b8b0d5c1f" });
FILES(taesdxl,
    { TAESD "taesdxl_encoder.pth", "taesdxl_encoder.pth", ABOUT_MB(5), "git:56dfb7ed13ac774bc28dcd981f072f26eb7c5e99" },
    { TAESD "taesdxl_decoder.pth", "taesdxl_decoder.pth", ABOUT_MB(5), "git:477bc7e9604f418029508e72ac8719bb9d048291" });
FILES(taesd3,
    { TAESD "taesd3_encoder.pth", "taesd3_encoder.pth", ABOUT_MB(5), "git:9678667c0e3e4b648a36daaa8094b1732ae4fb67" },
    { TAESD "taesd3_decoder.pth", "taesd3_decoder.pth", ABOUT_MB(5), "git:7943be72a9151d0b330c5d8a4fbb885d889b60a1" });
FILES(taef1,
    { TAESD "taef1_encoder.pth", "taef1_encoder.pth", ABOUT_MB(5), "git:d8ee13fa3a1ff9a92643669d718e4b0827daafa5" },
    { TAESD "taef1_decoder.pth", "taef1_decoder.pth", ABOUT_MB(5), "git:b772c9c4e6d3b79d06b277be59296389591783d3" });
FILES(taef2,
    { TAESD "taef2_encoder.pth", "taef2_encoder.pth", EXACT(2704692),
      "sha256:10a4e1021e89d7551eaf161352da8dbd0b1aa83872ae28b150c1df1ce2f147b6" },
    { TAESD "taef2_decoder.pth", "taef2_decoder.pth", EXACT(2704756),
      "sha256:0a44a31e1ae59eb9dbf9359d24942fd3ef5928162c1800d97a28c61d51be0ab5" });
FILES(taesana,
    { TAESD "taesana_encoder.pth", "taesana_encoder.pth", EXACT(2537004),
      "sha256:858f4e4cc293f88efaf58107f4154b960b9ced0cb5d9c050dad11f926b618c1f" },
    { TAESD "taesana_decoder.pth", "taesana_decoder.pth", INT64_C(2500000), 0,
      "git:aa645f9d0a0a1c6b5ed1fc5b446e764af4843a9f" });
FILES(taew2_1,
    { TAEHV "taew2_1.pth", "taew2_1.pth", ABOUT_MB(23), "git:d6ffa27358914606153bbb790bd1da1c5cf822fd" });
FILES(taew2_2,
    { TAEHV "taew2_2.pth", "taew2_2.pth", ABOUT_MB(23), "git:4b51ee2578346051cb091d6280213927b9403d61" });
FILES(ae, { COMFY_VAE, "ae.safetensors", EXACT(335304388), COMFY_CHECK });
FILES(wan2_1,
    { HF("Wan-AI/Wan2.1-T2V-1.3B") "Wan2.1_VAE.pth", "Wan2.1_VAE.pth", EXACT(507609880),
      "sha256:38071ab59bd94681c686fa51d75a1968f64e470262043be31f7a094e442fd981" });
FILES(wan2_2,
    { HF("Wan-AI/Wan2.2-TI2V-5B") "Wan2.2_VAE.pth", "Wan2.2_VAE.pth", EXACT(2818839170),
      "sha256:20eb789667fa5e60e7516bf509512f6cb61f01b0aa0695eadaea930c13892b36" });
FILES(zimage_q4,
    { HF("leejet/Z-Image-Turbo-GGUF") "z_image_turbo-Q4_0.gguf", "z-image-turbo/z_image_turbo-Q4_0.gguf", ABOUT_MB(3500), NULL },
    { HF("unsloth/Qwen3-4B-GGUF") "Qwen3-4B-Q4_K_M.gguf", "z-image-turbo/Qwen3-4B-Q4_K_M.gguf", ABOUT_MB(2500), NULL },
    { COMFY_VAE, "z-image-turbo/ae.safetensors", EXACT(335304388), COMFY_CHECK });
FILES(zimage_q8,
    { HF("leejet/Z-Image-Turbo-GGUF") "z_image_turbo-Q8_0.gguf", "z-image-turbo-q8/z_image_turbo-Q8_0.gguf", ABOUT_MB(6600), NULL },
    { HF("unsloth/Qwen3-4B-GGUF") "Qwen3-4B-Q8_0.gguf", "z-image-turbo-q8/Qwen3-4B-Q8_0.gguf", ABOUT_MB(4300), NULL },
    { COMFY_VAE, "z-image-turbo-q8/ae.safetensors", EXACT(335304388), COMFY_CHECK });

#define CODEC "encode, decode, reconstruct"
#define VIDEO "encode --clip, decode"
#define MODEL(name, description, licence, used_by, files) \
    { name, description, licence, used_by, files, sizeof(files) / sizeof *(files) }
static const zn_published table[] = {
    MODEL("taesd", "small autoencoder for Stable Diffusion 1 and 2", "MIT", CODEC, taesd),
    MODEL("taesdxl", "small autoencoder for SDXL", "MIT", CODEC, taesdxl),
    MODEL("taesd3", "small autoencoder for SD3", "MIT", CODEC, taesd3),
    MODEL("taef1", "small autoencoder for FLUX.1, Z-Image, HiDream", "MIT", CODEC, taef1),
    MODEL("taef2", "small autoencoder for FLUX.2", "MIT", CODEC, taef2),
    MODEL("taesana", "small autoencoder for Sana", "MIT", CODEC, taesana),
    MODEL("taew2_1", "small video autoencoder for Wan 2.1, Wan 2.2 14B, Qwen-Image", "MIT", VIDEO, taew2_1),
    MODEL("taew2_2", "small video autoencoder for Wan 2.2 TI2V-5B", "MIT", VIDEO, taew2_2),
    MODEL("ae", "the autoencoder of FLUX.1 and Z-Image", "Apache-2.0", CODEC, ae),
    MODEL("Wan2.1_VAE", "the video autoencoder of Wan 2.1, Wan 2.2 14B, Qwen-Image", "Apache-2.0", VIDEO, wan2_1),
    MODEL("Wan2.2_VAE", "the video autoencoder of Wan 2.2 TI2V-5B", "Apache-2.0", VIDEO, wan2_2),
    MODEL("z-image-turbo", "Z-Image-Turbo in 4 bits: transformer, text encoder, autoencoder", "Apache-2.0", "generate", zimage_q4),
    MODEL("z-image-turbo-q8", "Z-Image-Turbo in 8 bits", "Apache-2.0", "generate", zimage_q8),
};
/* clang-format on */

const zn_published *zn_published_at(int index)
{
    return index >= 0 && index < (int)(sizeof table / sizeof *table) ? &table[index] : NULL;
}

const zn_published *zn_published_find(const char *name)
{
    for (size_t i = 0; name && i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}
