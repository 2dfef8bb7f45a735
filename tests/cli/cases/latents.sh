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
zenith encode -q -m random:taef2 1.png -o unknown.latent
echo "unknown scale: $?"
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
ls junk.png two.npy scaled.latent unknown.latent 2>/dev/null
echo done
