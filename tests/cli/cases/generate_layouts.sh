# Every published layout of a model, all with the same weights: the same image, or one that differs by what fewer bits
# cost. Then LoRAs.
for layout in diffusers comfy comfy-fp8 comfy-scaled comfy-int8; do tinymodel $layout $layout || exit 1; done
gen() { zenith generate -q "a red fox" --size 64 --steps 2 --seed 7 "$@" || echo "failed: $*"; }
# beside REFERENCE IMAGE: "identical", "close" or "far"
beside() { zenith compare --json "$1" "$2" | jsoncheck -p identical psnr | tr '\n' ' ' | awk '{ print ($1 == "true" ? "identical" : $2 > 20 ? "close" : "far") }'; }
gen -m diffusers -o ref.png
look() { gen "${@:2}" -o "$1.png" && echo "$1: $(beside ref.png "$1.png")"; }

look comfy -m comfy
look inside -m comfy/diffusion_models
look one_file -m comfy/diffusion_models/a.safetensors
mkdir -p app/models flat named/z-image-turbo
cp -r comfy/* app/models/
look above -m app
cp comfy/*/*.safetensors comfy/tokenizer.json flat/
look flat -m flat
ZENITH_MODELS=$PWD/named
cp flat/* named/z-image-turbo/
export ZENITH_MODELS
look named
# The autoencoder of a generator is no default for other commands.
makeimage small.png 64 48
mkdir named/zenith-r
cp "$SOURCE/weights/zenith-r.safetensors" named/zenith-r/
zenith reconstruct --json small.png -o small-again.png | jsoncheck -p model
unset ZENITH_MODELS
# A broken download is not a missing file.
cp -r flat cut
truncate -s 60000 cut/a.safetensors
# Compilers order a network's parameters differently, so another tensor may be the first outside.
zenith generate "a fox" -m cut -o cut.png 2>&1 | sed -E "s/tensor '.*' *: data_offsets .*/tensor T: data_offsets lie outside the data/"
echo "status ${PIPESTATUS[0]}"
look apart --transformer diffusers/transformer --text-encoder diffusers/text_encoder/model.safetensors.index.json --vae comfy/vae/c.safetensors --tokenizer comfy
for bits in fp8 scaled int8; do look $bits -m comfy-$bits; done

# Made here: GGUF and MLX.
mkdir q mlx
for type in bf16 q8_0 q6_k q5_k q4_k q4_0; do
    zenith convert -q diffusers/transformer q/$type.gguf --dtype $type >/dev/null
    look $type -m comfy --transformer q/$type.gguf
done
zenith convert -q diffusers/text_encoder q/text.gguf --dtype q8_0 >/dev/null
look text -m comfy --text-encoder q/text.gguf
for type in mlx4 mlx8; do
    zenith convert -q diffusers/transformer mlx/$type.safetensors --dtype $type >/dev/null
    look $type -m comfy --transformer mlx/$type.safetensors
done
# What is stored in the image finds these files again.
zenith generate -q --from q4_0.png -o again.png && cmp q4_0.png again.png

# LoRA: strength 0 changes nothing, two halves are one whole, and packed weights take it too.
pair() { # name rows columns: a LoRA of rank 1 with equal numbers in a layer
    local header='{"'$1'.lora_A.weight":{"dtype":"F32","shape":[1,'$3'],"data_offsets":[0,'$((4 * $3))']},"'$1'.lora_B.weight":{"dtype":"F32","shape":['$2',1],"data_offsets":['$((4 * $3))','$((4 * ($2 + $3)))']}}'
    printf "\\x$(printf %02x $((${#header} & 255)))\\x$(printf %02x $((${#header} >> 8)))\0\0\0\0\0\0%s" "$header"
    for ((i = 0; i < $2 + $3; i++)); do printf '\0\0\x80\x3e'; done
}
pair transformer.layers.0.attention.to_q 256 256 >style.safetensors
pair some.other.layer 4 4 >other.safetensors
look lora0 -m comfy --lora style.safetensors:0
gen -m comfy --lora style.safetensors -o lora1.png
cmp -s lora1.png comfy.png && echo "a LoRA changes nothing"
gen -m comfy --lora style.safetensors:0.5 --lora style.safetensors:0.5 -o halves.png
echo "halves: $(beside lora1.png halves.png | sed s/identical/close/)" # sums may be rounded differently
gen -m comfy --transformer q/q8_0.gguf --lora style.safetensors -o packed.png
echo "packed: $(beside lora1.png packed.png)"
zenith generate -q --from lora1.png -o again.png && cmp lora1.png again.png
zenith generate -q --from lora1.png --lora style.safetensors:0 -o none.png && echo "without: $(beside comfy.png none.png)"
zenith info lora1.png | grep -oE 'LoRA 1: [^,]*'
# Part of a LoRA: the layers that fit are used, and a remark counts them.
both() { # the same with a second layer, which no transformer has
    pair "$1" "$2" "$3" >one && pair "$4" "$5" "$6" >two
    zenith convert -q one one.safetensors && zenith convert -q two two.safetensors
    mkdir -p shards && mv one.safetensors two.safetensors shards/
    printf '{"weight_map":{"%s.lora_A.weight":"one.safetensors","%s.lora_B.weight":"one.safetensors","%s.lora_A.weight":"two.safetensors","%s.lora_B.weight":"two.safetensors"}}' "$1" "$1" "$4" "$4" >shards/lora.safetensors.index.json
    zenith convert -q shards part.safetensors
}
both transformer.layers.0.attention.to_q 256 256 text_model.layers.0.mlp 4 4
zenith generate "a red fox" --size 64 --steps 2 --seed 7 -m comfy --lora part.safetensors -o part.png >/dev/null && echo "part: $(beside lora1.png part.png)"
for bad in other.safetensors:1 none.safetensors comfy/vae/c.safetensors style.safetensors:x; do
    zenith generate -q "a fox" -m comfy --lora $bad -o x.png
    echo "status $?"
done
! ls x.png 2>/dev/null
# zenith models names the parts instead of calling them unusable.
ZENITH_MODELS=$PWD/named zenith models | grep 'for generate' | sed -E 's# [^ ]*/named# named#'
