# A generator learns from images with captions: the folder that it leaves makes images from prompts, and a run that was
# stopped ends with the same bits.
mkdir pictures
for n in 1 2 3 4 5 6; do makeimage pictures/$n.png 128 128; done
printf 'file,caption\n' >captions.csv
for n in 1 2 3; do printf '%s.png,"a photo of a ""red"" fox, an animal"\n' $n >>captions.csv; done
for n in 4 5; do printf '%s.png,a blue dog\n' $n >>captions.csv; done
zenith train zenith-r --data pictures -o ae --steps 1 --set batch=1 --set size=32 --set held_out=0 -q >ae.log
cat >small.yaml <<'Y'
model: zimage-mini
task: generate
autoencoder: ae/model.safetensors
width: 64
layers: 1
batch: 2
size: 128
steps: 4
warmup: 1
schedule: constant
held_out: 0
checkpoint_every: 2
Y
learn() { zenith train small.yaml --data pictures --captions captions.csv -q "$@" | grep -E '^(steps|model)'; }
learn -o whole
learn -o parts --steps 2
for d in . transformer text_encoder vae tokenizer; do : >parts/model/$d/model.safetensors.tmp-0123abcd; done # of a run that was killed
zenith train --data pictures -o parts --resume --steps 4 -q | grep '^steps'
cmp whole/checkpoint.safetensors parts/checkpoint.safetensors
diff -r whole/model parts/model && find whole/model -type f | LC_ALL=C sort
sed 's/^size: .*/size: 112/' small.yaml >odd.yaml # its tokens do not fill whole blocks
zenith train odd.yaml --data pictures --captions captions.csv -o odd --steps 1 -q | grep -E '^(steps|model)'
zenith generate "a blue dog" -m whole/model --steps 2 --seed 1 -o dog.png -q # the size is that of the images
zenith generate "a red fox" -m whole/model --size 128 --steps 2 --seed 1 -o fox.png -q
zenith info --json fox.png | jsoncheck -p width height
zenith info --json dog.png | jsoncheck -p width height
zenith train generate --print | grep -E '^(task|autoencoder|vocabulary|caption_dropout)'
# Mistakes are one sentence, and nothing is left behind.
try() {
    zenith train small.yaml --data pictures -o other "$@"
    echo "status $?"
}
try
printf 'picture,text\n1.png,a fox\n' >bad.csv
try --captions bad.csv
printf 'file,caption\nnowhere.png,a fox\n' >none.csv
try --captions none.csv
printf 'file,caption\n1.png,"a fox\n' >open.csv
try --captions open.csv
zenith train zenith-r --data pictures -o other --captions captions.csv
echo "status $?"
[[ ! -e other ]] || echo "a run was begun"
printf '1.png,another\n' >>captions.csv
sed -i 2d captions.csv
zenith train --data pictures -o parts --resume --steps 6 -q
echo "status $?"
