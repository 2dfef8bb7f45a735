# A small run from a recipe: everything it promises is in the folder, the model works, mistakes are one sentence.
mkdir pictures
for n in 1 2 3 4 5 6 7 8; do makeimage pictures/$n.png 40 4$n; done
cat >small.yaml <<'Y'
model: taesd
batch: 2
size: 16
steps: 3
warmup: 1
held_out: 30
loss:
  l1: 1
  bands: 0
Y
zenith train small.yaml --data pictures -o run --json | jsoncheck run steps loss seconds waited
# It says what was computed in, which need not be what was asked for.
zenith train small.yaml --data pictures -o run16 --steps 1 --precision bf16 --json | jsoncheck -p precision_asked
zenith train small.yaml --data pictures -o run32 --steps 1 --precision f32 -q | grep -c '^precision'
(cd run && ls)
grep -c '"loss"' run/metrics.jsonl
zenith info run/model.safetensors | grep '^architecture'
zenith train small.yaml --data pictures -o run
echo "status $?"
zenith train small.yaml --data nowhere -o other
echo "status $?"
zenith train --resume --data pictures -o none
zenith train --resume none
echo "status $?"
echo 'stepps: 3' >bad.yaml
zenith train bad.yaml --data pictures -o bad
echo "status $?"
echo 'loss: {features: 1}' >bad.yaml
zenith train bad.yaml --data pictures -o bad
echo "status $?"
zenith train nothing --data pictures -o bad2
echo "status $?"
zenith train taesd -o x
echo "status $?"
# The seed of the command is the run's; going on is possible with the first command, and with nothing that differs.
zenith train small.yaml --data pictures -o seeded --seed 3 --steps 1 -q | grep '^steps'
grep '^seed' seeded/recipe.yaml
cmp -s seeded/model.safetensors run32/model.safetensors || echo "another model"
zenith train small.yaml --data pictures -o seeded --seed 3 --steps 2 -q --resume | grep '^steps'
zenith train small.yaml --data pictures -o seeded --steps 2 -q --resume | grep '^steps'
zenith train --resume --data pictures -o seeded --seed 4
echo "status $?"
sed 's/warmup: 1/warmup: 2/' small.yaml >new.yaml
zenith train new.yaml --resume --data pictures -o seeded --seed 3 --steps 2
echo "status $?"
zenith train --resume --from run --data pictures -o seeded 2>message
echo "status $?"
grep -o "with 'from: \"\"' and not the 'from: .* of the options: leave that out" message | sed 's/from: .*run/from: run/'
zenith train taesd --data pictures -o x --seed -1
echo "status $?"
# Which pictures it had is in the folder; others are told.
sed -E 's/"path": "[^"]*pictures"/PATH/; s/[0-9a-f]{64}/DIGEST/' seeded/data.jsonl
mkdir few
cp pictures/1.png few
zenith train --resume --data few -o seeded --steps 3 2>message | grep -E '^(steps|psnr)'
sed -E 's, /[^ ]*/, ,g' message
# A full disk: how to go on.
(ulimit -f 100; zenith train small.yaml --data pictures -o full) 2>message
echo "status $?"
sed -E 's/(cannot write full).*/\1/' message
printf '%s\n' 'model: zenith-restore' 'task: restore' 'loss: {kl: 1}' >bad.yaml
zenith train bad.yaml --data pictures -o bad
echo "status $?"
# A network with gates for rows and columns is made for the size of the crops, and its permutations stay such.
printf '%s\n' 'model: zenith-spectral' 'size: 32' 'batch: 1' 'held_out: 0' >gates.yaml
zenith train gates.yaml --data pictures -o gates --steps 5 -q | grep '^steps'
zenith train --resume --data pictures -o gates --steps 6 -q | grep '^steps'
makeimage square.png 32 32
zenith reconstruct -q --model gates square.png --json | jsoncheck -p width
zenith reconstruct -q --model gates pictures/1.png
echo "status $?"
# A run among its pictures does not see its own samples.
cp -r pictures among
zenith train small.yaml --data among -o among/run -q >/dev/null
ls among/run/samples
zenith train --resume --data among -o among/run --steps 4 -q | grep '^steps'
wc -l <among/run/data.jsonl
# Pictures that go away do not take the run with them.
cp -r pictures gone
sed 's/steps: 3/steps: 100000/' small.yaml >long.yaml
zenith train long.yaml --data gone -o lost 2>message &
while ! grep -q loss lost/metrics.jsonl 2>/dev/null; do sleep 0.05; done
rm -r gone
wait $!
echo "status $?"
grep -o 'the state before it is saved' message
ls lost/checkpoint.safetensors
echo 'no picture' >pictures/9.png
sed -i 's/held_out: 30/held_out: 0/; s/steps: 3/steps: 6/' small.yaml
zenith train small.yaml --data pictures -o runs/patchy | grep -E 'steps|skipped|psnr'
zenith train --resume --data pictures -o runs/patchy --json | jsoncheck run steps skipped loss psnr seconds waited
zenith train --resume --data pictures -o runs/patchy --steps 5
echo "status $?"
