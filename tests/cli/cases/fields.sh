# Models over points: some of the pixels are enough, results have any size, samples are tables of points. Other models
# say what they cannot do.
mkdir pictures
for n in 1 2 3; do makeimage pictures/$n.png 32 32 $n; done
common='task: diffuse
latent: 8
size: 16
batch: 1
steps: 1
held_out: 0'
printf '%s\nmodel: mamba-field-direct\nwidth: 8\nlayers: 1\n' "$common" >field.yaml
printf '%s\nmodel: diffae-mamba64\nwidth: 2\nlayers: 1\n' "$common" >patches.yaml
zenith train -q field.yaml --data pictures -o run >/dev/null || exit 1
zenith train -q patches.yaml --data pictures -o other >/dev/null || exit 1
grep -A3 points run/recipe.yaml
grep -c points other/recipe.yaml
zenith reconstruct -q --json pictures/1.png -m run --keep 10% --scale 3 -o r.png | jsoncheck -p width height keep scale
for how in "" "--keep 10%"; do # without noise and steps; the seed draws pixels
    zenith reconstruct -q --json pictures/1.png -m run $how | grep -oE '"(noise|seed|steps|encode_steps)"'
done
printf '%s\nmodel: diffae-celeba64\ntask: imagine\nwidth: 8\n' 'batch: 2
steps: 1
held_out: 0' >latent.yaml
zenith train -q latent.yaml --from run --data pictures -o whole >/dev/null || exit 1
zenith sample -q --json -m whole --points 7 --latent-steps 2 -o points.csv | jsoncheck -p points
head -n 1 points.csv
wc -l <points.csv
zenith sample -m whole --points 7 -o points.png
zenith sample -m whole --points 7 -o points.csv --nearest pictures
zenith reconstruct -q pictures/1.png -m other --keep 10% -o r.png
zenith reconstruct -q pictures/1.png pictures/2.png -m random:taesd --keep 10%
zenith reconstruct -q pictures/1.png -m run --keep 110% -o r.png
