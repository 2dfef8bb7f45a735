# For cases to source: recipes and data of tiny diffusion autoencoders, which train within seconds.
#
#     photos COUNT          pictures/1.png, pictures/2.png and so on
#     recipes STEPS         auto.yaml, latent.yaml and classifier.yaml, to be trained in this order
#     train RECIPE [OPTION...]
photos() {
    local n
    mkdir pictures
    for ((n = 1; n <= $1; n++)); do makeimage pictures/$n.png 64 64 $n; done
}
recipes() {
    local common="batch: 2
steps: $1
warmup: 0
lr: 1e-2
ema: 0
held_out: 0
model: diffae-celeba64"
    printf '%s\ntask: diffuse\nwidth: 2\nlatent: 16\nsize: 64\n' "$common" >auto.yaml
    printf '%s\ntask: imagine\nwidth: 32\n' "$common" >latent.yaml
    printf '%s\ntask: classify\n' "$common" >classifier.yaml
}
train() { zenith train -q "$@" --data pictures >/dev/null || exit 1; }
