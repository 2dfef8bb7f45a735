# Diffusion autoencoders and plain diffusion models are judged; conditions are latents of 1x1; other samplers; folders of
# the original's data.
source "$SOURCE/tests/cli/tiny_diffae.sh"
photos 4
recipes 2
sed '/^latent/d; s/^model: .*/model: ddim-compact/' auto.yaml >plain.yaml
printf 'file,Smiling,Young\n1.png,1,0\n2.png,0,?\n3.png,1,1\n4.png,0,\n' >labels.csv
train auto.yaml -o auto
train plain.yaml -o plain
train latent.yaml --from auto -o latent
train classifier.yaml --from latent --labels labels.csv -o whole

# Every figure is there; Young is known of two images only.
judge() { zenith eval -q --json --lpips none --data pictures --steps 2 --encode-steps 2 --latent-steps 2 "$@"; }
judge -m whole --labels labels.csv --edits 1 --count 2 --most 3 >json
jsoncheck -p samples edited failed nearest <json
jsoncheck -p round_trips <json | grep -oE '"(noise|images)": [^,]*'
jsoncheck -p attributes <json | grep -oE '"(attribute|with|without|edited)": [^,]*'
jsoncheck edit_fid sample_fid held_distance seconds <json
judge -m whole --labels labels.csv --edits 1 --attribute Young | jsoncheck -p edited
judge -m plain --count 1 | jsoncheck -p samples model # as other commands call it
zenith eval -m auto --data pictures --steps 2 --encode-steps 2 --lpips none 2>/dev/null | cut -c1-24

# Of a single image there is no distance of sets, with or without the features.
zenith eval -m auto --data pictures --most 1 --steps 2 --encode-steps 2 --lpips none 2>&1 | grep -c lite0
zenith eval -m auto --data pictures --most 2 --steps 2 --encode-steps 2 --lpips none 2>&1 | grep -c lite0

# A file has a row for each image and kind of noise, and the means.
judge -m auto --most 2 -o scores.csv | jsoncheck -p failed
cut -d, -f1-3 scores.csv
sed 's/.*,//' scores.csv
judge -m plain --most 1 -o scores.json | jsoncheck failed
jsoncheck -p model failed images <scores.json | grep -oE '"(model|failed|image|noise)": [^,}]*|^[0-9]+$'
zenith eval -q -m plain --data pictures --steps 2 --encode-steps 2 --lpips none --most 1 -o none/scores.csv
echo "status $?"

# A condition is a latent, and what is made of it is what --random-noise makes.
zenith encode -q pictures/1.png -m whole -o cond.safetensors || exit 1
zenith info cond.safetensors | grep -E '^(channels|width|height) '
zenith decode -q cond.safetensors -m whole -o cond.png || exit 1
zenith reconstruct -q pictures/1.png -m whole --random-noise -o same.png >/dev/null || exit 1
cmp cond.png same.png && echo "the same image"
zenith encode pictures/1.png -m plain -o none.safetensors
echo "status $?"

# Plain models need no latent net; noise that is added on the way comes from the seed.
draw() { zenith sample -q --steps 3 --count 2 "$@" || exit 1; }
draw -m plain --json -o a.png | jsoncheck -p model images steps
draw -m plain --ddpm --json -o b.png | jsoncheck -p sampler
draw -m plain --eta 1 --steps 4 --json -o c.png | jsoncheck -p eta
draw -m plain --seed 18446744073709551615 --json -o last.png | jsoncheck -p seed
draw -m plain --ddpm -o b2.png >/dev/null
cmp b.png b2.png
cmp -s a.png b.png && echo "DDPM is DDIM"

# The original's folders: keys, a length, and whole photos of CelebA, of which the square is used.
if zenith dataset build pictures --size 64 -q -o set.lmdb >/dev/null; then
    mkdir ffhq.lmdb && mv set.lmdb ffhq.lmdb/data.mdb
    zenith dataset info ffhq.lmdb | grep -E '^images '
fi
