# A diffusion autoencoder of another size is read back as what it was trained on; a width that is not possible is refused
# with those that are; its recipe lists no losses that it does not use.
mkdir pictures
for n in 1 2; do makeimage pictures/$n.png 64 64 $n; done
common='model: diffae-celeba64
task: diffuse
latent: 16
size: 32
batch: 1
steps: 1
held_out: 0'
printf '%s\nwidth: 2\n' "$common" >small.yaml
printf '%s\nwidth: 8\n' "$common" >eight.yaml
zenith train -q small.yaml --data pictures -o run >/dev/null || exit 1
zenith info --json run | jsoncheck -p image_size
grep -c loss run/recipe.yaml
zenith reconstruct -q --json pictures/1.png --model run --encode-steps 2 --steps 2 -o r.png | jsoncheck -p width height
zenith train -q eight.yaml --data pictures -o never
