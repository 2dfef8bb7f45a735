# Under the address sanitizer: no memory is left behind, whether the work is done or fails halfway.
export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=1"
makeimage a.png 40 24
head -c 70 a.png >bad.png
zenith encode -q --json --show --model random:taesd a.png bad.png missing.png -o latents >/dev/null 2>&1
echo "encode $?"
zenith decode -q --model random:taesd latents -o pictures
echo "decode $?"
zenith reconstruct -q --json --model random:taesd a.png -o side.webp --compare >/dev/null
echo "reconstruct $?"
zenith bench -q --size 64 --runs 1 --profile >/dev/null
echo "bench $?"
# A small diffusion autoencoder, and all that is made with one; its training is looked at elsewhere.
mkdir faces
for n in 1 2 3; do makeimage faces/$n.png 64 64 $n; done
printf 'bald young\n1.png 1 0\n2.png 0 1\n3.png 1 1\n' >faces/labels.txt
train() { ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0" zenith train -q "$@" --data faces >/dev/null || echo "training fails"; }
printf '%s: %s\n' model diffae-celeba64 batch 1 steps 1 warmup 0 ema 0 held_out 0 >common
{ cat common; printf '%s: %s\n' task diffuse width 2 latent 16 size 64; } >auto.yaml
{ cat common; echo 'task: imagine'; } >latent.yaml
{ cat common; echo 'task: classify'; } >classifier.yaml
train auto.yaml -o auto
train latent.yaml --from auto -o latent
train classifier.yaml --from auto -o classifier
diffuse() { zenith "$@" --steps 2 -q >/dev/null 2>&1; echo "$1 $?"; }
diffuse edit faces/1.png --model auto --classifier classifier --attribute bald --amount 0,1 --encode-steps 2 -o e.png
diffuse edit faces/1.png --model auto --classifier classifier --attribute bold -o e.png
diffuse interpolate faces/1.png bad.png --model auto --encode-steps 2 -o i.png
diffuse sample --model auto --latent latent --latent-steps 2 --count 2 -o s.png --json
diffuse reconstruct faces --model auto --random-noise -o r/
