# A small distillation: stages, metrics and model are there, Ctrl-C saves and says how to go on, mistakes are one sentence.
mkdir pictures
for n in 1 2 3 4 5 6 7 8; do makeimage pictures/$n.png 40 4$n; done
cat >student.yaml <<'Y'
model: zenith-r
width: 8
batch: 1
size: 16
warmup: 1
held_out: 30
distill: {encoder: 2, decoder: 2, joint: 2}
Y
zenith distill --teacher random:taesd --student student.yaml --data pictures -o run --seed 5 --json |
    jsoncheck run steps loss latent_error decoder_psnr psnr teacher_psnr seconds
(cd run && ls)
grep '^seed' run/recipe.yaml
grep -o '"stage": [0-9]' run/metrics.jsonl | sort -u
zenith info run/model.safetensors | grep -E '^(architecture|latent channels|encoder|decoder)'
zenith encode -q --model run/model.safetensors pictures/1.png -o one.safetensors
zenith decode -q --model run/model.safetensors one.safetensors -o one.png && ls one.png
# The bar shows the stage, the loss and its curve.
sed 's/encoder: 2,/encoder: 100000,/' student.yaml >long.yaml
LC_ALL=C.UTF-8 onterminal -i ', loss' zenith distill --teacher random:taesd --student long.yaml --data pictures -o long >seen
echo "status $?"
grep -q $'left  [0-9]*/100004, loss [0-9.e+-]* \xe2\x96' seen || echo "no curve"
grep -q '[0-9] img/s, encoder' seen || echo "no speed or stage"
grep -o 'stopped after step' seen
grep -o 'continue with: zenith distill --resume long' seen
zenith distill --teacher random:taesana --student zenith-r --data pictures -o bad
echo "status $?"
zenith distill --teacher random:taesd --student nobody --data pictures -o bad
echo "status $?"
zenith distill --resume --data pictures -o none
echo "status $?"
zenith distill --resume --student zenith-r-wide --data pictures -o run
echo "status $?"
zenith train --resume --data pictures -o run
echo "status $?"
zenith distill --teacher random:taesd --data pictures -o bad
echo "status $?"
# A teacher whose parameters have no name of a part before their own.
sed -e 's/zenith-r/zenith-hier-r/' -e '/width/d' -e 's/size: 16/size: 32/' student.yaml >prune.yaml
zenith distill --teacher random:zenith-hier-r --student prune.yaml --data pictures -o prune --json | jsoncheck -p steps
# Halves that are trained apart have one file each, which convert joins.
mkdir halves
for half in encoder decoder; do
    sed "s/^distill.*/distill: {joint: 0, encoder: 0, decoder: 0}/; s/$half: 0/$half: 1/" student.yaml >half.yaml
    zenith distill -q --teacher random:taesd --student half.yaml --data pictures -o only-$half >/dev/null
    zenith info only-$half/model.safetensors | grep -E '^(en|de)coder '
    cp only-$half/model.safetensors halves/$half.safetensors
done
zenith convert -q halves joined.safetensors --dtype f16
zenith info joined.safetensors | grep -E '^(en|de)coder '
