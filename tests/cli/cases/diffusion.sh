# Diffusion autoencoders: three small networks are trained, then pictures go through them in every way there is.
source "$SOURCE/tests/cli/tiny_diffae.sh"
photos 4
recipes 3
makeimage photo.jpg 90 70
printf 'file,Smiling,Young\n1.png,1,0\n2.png,0,1\n3.png,1,1\n4.png,0,0\n' >labels.csv
train auto.yaml -o auto
train latent.yaml --from auto -o latent
train classifier.yaml --from auto --labels labels.csv -o classifier
steps="--model auto --encode-steps 10 --steps 5"

mkdir large && makeimage large/1.png 200 120 1 && makeimage large/2.png 200 120 2
zenith train auto.yaml --data large -o cut 2>&1 >/dev/null | grep -o 'images such as.*'

# A picture of another size is fitted; the figures are those against what the model sees of it.
zenith reconstruct photo.jpg $steps -o r.png >text || exit 1
cut -c1-15 text
zenith reconstruct -q --json pictures/1.png $steps -o r1.png >json
zenith compare --json pictures/1.png r1.png | jsoncheck -p psnr ssim >one
jsoncheck -p psnr ssim <json | cmp - one
jsoncheck -p noise encode_steps steps <json
zenith reconstruct -q --json pictures photo.jpg $steps -o rec/ | jsoncheck files failed model mean
ls rec
cmp rec/1.png r1.png
zenith reconstruct -q --json pictures/1.png $steps --random-noise -o n0.png | jsoncheck -p noise seed
zenith reconstruct -q --json pictures/1.png $steps --random-noise --seed 1 -o n1.png | jsoncheck -p noise seed
cmp -s n0.png n1.png && echo "the seed changes nothing"
cmp -s n0.png r1.png && echo "the picture's own noise is not used"

# An edit of 0 is the reconstruction; others are not. A strip is what the single pictures are.
zenith edit --list --model auto --classifier classifier
zenith edit --list --model classifier --json | jsoncheck attributes
zenith edit --list --model classifier pictures/1.png | sed -E 's/ +[0-9.]+ %/ N %/'
edit() { zenith edit pictures/1.png --classifier classifier $steps --attribute "$@" 2>/dev/null >text || echo "edit fails"; }
edit smiling --amount 0 -o e0.png
[[ $(zenith compare --json r1.png e0.png | jsoncheck -p max_difference) -le 1 ]] || echo "an edit of 0 is a change"
edit Smiling --amount -30 -o e1.png
cmp -s e0.png e1.png && echo "the amount changes nothing"
edit Young --amount -30 -o e2.png
cmp -s e1.png e2.png && echo "the attribute changes nothing"
edit 0 --amount=-30,0,30 -o strip.png
grep -E '^(attribute|amount|images|width|height)|%' text | sed -E 's/ +[0-9.]+ %/  N %/'
edit 0 --amount -30,0,30 -o strip/ --json
# The scores are those of the images that are written. More of an attribute is more of it to the classifier.
for n in 1 2 3; do
    zenith edit --list --model classifier strip/000$n.png --json | grep -oE '"attribute": "Smiling", "score": [0-9.e-]+' | grep -oE '[0-9.e-]+$'
done >listed
grep -oE '"scores": [^]]*\]' text | grep -oE '[0-9][0-9.e-]*' | cmp - listed
grep -oE '"condition_scores": [^]]*\]' text | tr -d '[,]' | awk '{ print $2 < $3 && $3 < $4 ? "rising" : "not rising: " $0 }'
ls strip
cmp strip/0001.png e1.png
cmp strip/0002.png e0.png

# Grey stays grey, alone, in a strip and in a pipe.
makeimage grey.png 20 20 1 8 grey
zenith edit -q grey.png --classifier classifier $steps --attribute 0 --amount 0,30 -o grey/
zenith edit -q grey.png --classifier classifier $steps --attribute 0 --amount 30 -o alone.png
zenith edit -q grey.png --classifier classifier $steps --attribute 0 --amount 0,30 -o - >strip.png
for name in grey/0002.png alone.png strip.png; do od -An -tu1 -j25 -N1 $name; done # colour type 0, not 2
cmp grey/0002.png alone.png

# Toward what the latent net imagines: more of the attribute is more of it to the classifier.
zenith edit pictures/1.png $steps -q --json --latent latent --classifier classifier --attribute Young --imagine --amount=-1,0,1 -o imagined/ >text
jsoncheck -p way <text
grep -oE '"condition_scores": [^]]*\]' text | tr -d '[,]' | awk '{ print $2 < $4 ? "rising" : "not rising: " $0 }'
cmp imagined/0002.png e0.png

# Between two pictures: the ends are their reconstructions, and a sheet, a folder and a pipe have the same pixels.
between() { zenith interpolate pictures/1.png pictures/2.png $steps --frames 3 -q "$@"; }
between -o frames/ --json | jsoncheck -p from to images width height output
cmp frames/0001.png r1.png
cmp frames/0003.png rec/2.png
cmp -s frames/0002.png frames/0003.png && echo "nothing lies between"
between -o sheet.png >/dev/null
zenith info --json sheet.png | jsoncheck -p width height
between -o - | cmp - sheet.png

# Samples: each has its seed, whatever the number of pictures and of threads.
sample() { zenith sample --model auto --latent latent --steps 5 --latent-steps 5 "$@"; }
sample -o sheet5.png --count 5 | grep -E '^(images|width|height|seed) '
for n in 1 3; do
    sample -o again.png --count 5 --threads $n >/dev/null
    cmp sheet5.png again.png
done
sample -o samples --format jpg 2>/dev/null && echo "a folder needs a slash or must be there"
sample -o samples/ --count 3 --json | jsoncheck -p seed latent_steps steps images
sample -o two.png --seed 2 >/dev/null
cmp two.png samples/0003.png
cmp -s samples/0001.png samples/0002.png && echo "all samples are the same"
ls samples

# Ctrl-C leaves nothing behind.
mkdir out
onterminal -i 'left  ' zenith reconstruct pictures/1.png --model auto --encode-steps 1000 --steps 1000 --threads 1 -o out/r.png >seen
echo "status $?"
ls -A out
tr -d '\n' <seen | grep -oE '[0-9]+s, about [0-9ms]+ left  (encode|render)' | head -1 | sed -E 's/[0-9][0-9ms]*/N/g; s/encode|render/WORK/'

# Mistakes are one sentence.
sed -i 's/latent: 16/latent: 32/' auto.yaml
train auto.yaml -o wide
try() {
    zenith "$@"
    echo "status $?"
}
try sample -o x.png
try sample -o x.png --model auto
try sample -o x.png --model auto --latent classifier
try sample -o x.png --model latent --latent latent
try sample -o x.png --model wide --latent latent
try sample -o x.png --model random:taesd
try sample -o x.png --model latent --steps 37
try sample -o x.png --model latent --latent-steps 1
try sample -o x.txt --model latent
try sample --model latent
try edit pictures/1.png -o x.png --model auto --attribute Smiling
try edit pictures/1.png -o x.png --model classifier
try edit -o x.png --model classifier --attribute Smiling
try edit pictures/1.png -o x.png --model wide --classifier classifier --attribute Smiling
try edit pictures/1.png -o x.png --model classifier --attribute Smilling
try edit pictures/1.png -o x.png --model classifier --attribute 2
try edit pictures/1.png -o x.png --model classifier --attribute Old
try edit pictures/1.png -o x.png --model classifier --attribute Smiling --attribute Young
try edit pictures/1.png -o x.png --model classifier --attribute Young --amount 1,,2
try edit pictures/1.png -o x.png --model classifier --attribute Young --amount 1e9
try edit none.png -o no/such/x.png --model classifier --attribute Young
try edit pictures/1.png -o pictures/1.png --model classifier --attribute Young
try edit none.png -o x.png --model classifier --attribute Young
try edit pictures/1.png -o x.png --model classifier --imagine
try edit pictures/1.png -o x.png --model classifier --attribute Young --imagine
try interpolate pictures/1.png -o x.png --model auto
try interpolate pictures/1.png labels.csv -o x.png --model auto --encode-steps 2
try interpolate frames/0001.png pictures/1.png -o frames --model auto
try interpolate pictures/1.png pictures/2.png -o x.png --model auto --frames 1
try reconstruct pictures/1.png --model auto --encode-steps 1001
try reconstruct pictures --model auto --compare
try encode pictures/1.png --model auto --batch -o x.safetensors
try sample --model latent -o x.png --ddpm --eta 0.5
try sample --model latent -o x.png --eta 2
try sample --model latent -o x.png --ddpm --steps 1
try sample --model latent -o x.png --ddpm --steps 1001
try eval --model auto --data pictures --task denoise
try eval --model auto --data pictures --amount 0.3
try eval --model auto --data pictures --count 2
try eval --model classifier --data pictures --labels auto.yaml
try eval --model auto --data pictures --memory 8G
try reconstruct pictures/1.png --model auto --memory 8G
try eval --model auto --data pictures --clips
try eval --model random:taesd --data pictures --most 1
try reconstruct pictures/1.png --model random:taesd --steps 5
try reconstruct pictures/1.png pictures/2.png --model random:taesd --random-noise
try reconstruct none.mp4 --model random:taesd --random-noise
try interpolate pictures/1.png pictures/2.png -o x.png --model auto --rate 12
try interpolate pictures/1.png pictures/2.png -o x.gif --model auto
try eval --model auto --data pictures --gates
try encode pictures/1.png --model auto -o x.latent
! compgen -G 'x.*'
