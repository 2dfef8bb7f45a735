# Latents of other programs: NumPy's .npy, ComfyUI's .latent, batches [N,C,H,W], raw and scaled numbers.
export ZENITH_MODELS=$PWD/none
model=random:taesd
for n in 1 2 3; do makeimage $n.png 24 16 $n; done
plain() { sed 's/  [0-9.]* ms//'; }
zenith encode -q -m $model 1.png -o one.safetensors && zenith decode -q -m $model one.safetensors -o expected.png
# One latent in each kind of file decodes to the same picture; .npy has no room for facts.
zenith encode -q -m $model 1.png -o one.npy && zenith decode -q -m $model one.npy -o npy.png && cmp npy.png expected.png
zenith encode -q -m $model 1.png -o one.latent && zenith decode -q -m $model one.latent -o comfy.png
zenith compare comfy.png expected.png | grep -c 'max difference  [01]$'
zenith info one.latent | grep scaling
# What raw means: files of a VAE's own numbers, other numbers for another family of the same form.
zenith encode -q -m $model --scaling raw 1.png -o raw.npy && zenith decode -q -m $model --scaling raw raw.npy -o raw.png
zenith compare raw.png comfy.png | grep -c 'max difference  0$'
zenith decode -q -m $model --scaling diffusers raw.npy -o wrong.png
zenith compare wrong.png expected.png | grep -c 'max difference  [01]$'
zenith encode -q -m $model --scaling raw:sdxl 1.png -o xl.npy && cmp -s xl.npy raw.npy || echo "sdxl is another scale"
zenith encode -q -m $model --scaling diffusers 1.png -o scaled.latent
echo "scaled .latent: $?"
# FLUX.2's latents: packed in 128 channels at 1/16 as ComfyUI keeps them, or if asked; raw ones need the VAE's statistics.
makeimage even.png 32 16
zenith encode -q -m random:taef2 even.png -o two.safetensors && zenith decode -q -m random:taef2 two.safetensors -o two.png
zenith encode -q -m random:taef2 --packed even.png -o packed.safetensors
zenith info packed.safetensors | grep -E '^(width|height|channels|downscale)'
zenith encode -q -m random:taef2 even.png -o two.latent
zenith info two.latent | grep -E '^(channels|scaling)'
for f in packed.safetensors two.latent; do
    zenith decode -q -m random:taef2 $f -o f.png && zenith compare f.png two.png | grep -c 'max difference  0$'
done
header='{"bn.running_mean":{"dtype":"F32","shape":[128],"data_offsets":[0,512]},'
header=$header'"bn.running_var":{"dtype":"F32","shape":[128],"data_offsets":[512,1024]}}'
{
    printf "\\$(printf %03o ${#header})\\0\\0\\0\\0\\0\\0\\0%s" "$header"
    head -c 1024 /dev/zero # a variance of 0: only the epsilon is left, raw numbers are a hundredth
} >vae.safetensors
for more in "" --packed; do
    zenith encode -q -m random:taef2 --scaling raw --vae vae.safetensors $more even.png -o raw2.safetensors
    zenith decode -q -m random:taef2 --vae vae.safetensors raw2.safetensors -o f.png
    zenith info raw2.safetensors | grep -E '^(channels|scaling)'
    zenith compare f.png two.png | grep -c 'max difference  [01]$'
done
zenith encode -q -m random:taef2 --scaling raw 1.png -o flux2.npy
echo "no statistics: $?"
zenith encode -q -m random:taef2 --scaling raw --vae two.safetensors 1.png -o flux2.npy
echo "another file: $?"
zenith encode -q -m random:taef2 --scaling raw 1.png -o raw2.latent
echo "raw .latent of FLUX.2: $?"
zenith encode -q -m $model --packed 1.png -o not.safetensors
echo "not FLUX.2's: $?"
zenith encode -q -m random:zenith-r --scaling raw:flux2 1.png -o not.safetensors
echo "another model: $?"
# A batch: one file, as many pictures as it has latents.
zenith encode -m $model --batch 1.png 2.png 3.png -o all.npy 2>/dev/null | plain
zenith decode -m $model all.npy -o out.png 2>/dev/null | plain
for n in 1 2 3; do
    zenith reconstruct -q -m $model $n.png -o single.png >/dev/null && cmp single.png out_000$n.png
done
zenith info all.npy | grep -E '^(batch|width|channels)'
zenith decode -q -m $model --json all.npy -o again/ | grep -oE '"output": "[^"]*"'
zenith decode -q -m $model all.npy -o - | cat
zenith decode -q -m $model all.npy && zenith decode -q -m $model all.npy
echo "pictures are there: $?"
makeimage large.png 32 32
zenith encode -q -m $model --batch 1.png large.png -o two.npy
echo "two sizes: $?"
zenith encode -q -m $model --batch --clip 1.png -o two.npy
echo "both: $?"
printf 'junk' >junk.npy
zenith decode -q -m $model junk.npy -o junk.png
ls junk.png two.npy scaled.latent flux2.npy raw2.latent not.safetensors 2>/dev/null
echo done
