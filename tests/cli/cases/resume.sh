# A run goes on with its preset or recipe alone, whatever options it was begun with; it keeps its precision, teacher and
# labels, and says so to whoever asks for others.
mkdir pictures
for n in 1 2 3 4 5 6 7 8; do makeimage pictures/$n.png 40 4$n; done
zenith train zenith-hier --data pictures -o run --seed 5 --steps 1 --precision bf16 -q | grep '^steps'
sed -E 's/[0-9a-f]{64}/DIGEST/' run/origin.json
zenith train zenith-hier --data pictures -o run --resume | grep '^steps'
zenith train zenith-hier --data pictures -o run --resume --steps 2 --threads 1 | grep '^steps'
zenith train zenith-hier --data pictures -o run --resume | grep '^steps'
zenith train zenith-hier --data pictures -o run --resume --seed 5 --precision bf16 --steps 2 -q | grep '^steps'
zenith train zenith-hier --data pictures -o run --resume --steps 3 --precision f32
echo "status $?"
zenith train zenith-hier --data pictures -o run --resume --steps 1
echo "status $?"
zenith train zenith-r --data pictures -o run --resume
echo "status $?"
grep -E '^(seed|steps|precision)' run/recipe.yaml

cat >student.yaml <<'Y'
model: zenith-r
width: 8
batch: 1
size: 16
warmup: 1
held_out: 30
distill: {encoder: 2, decoder: 2, joint: 2}
Y
zenith train zenith-r --data pictures -o teacher --steps 1 -q | grep '^steps'
mv teacher/model.safetensors teacher.safetensors
zenith distill --teacher teacher.safetensors --student student.yaml --data pictures -o small --steps 3 -q | grep '^steps'
sed -E 's/[0-9a-f]{64}/DIGEST/' small/origin.json
zenith distill --teacher teacher.safetensors --student student.yaml --data pictures -o small --steps 3 --resume -q | grep '^steps'
zenith distill --student student.yaml --data pictures -o small --resume -q | grep '^steps'
zenith distill --teacher random:taesd --data pictures -o small --resume 2>message
echo "status $?"
sed -E 's, /[^ ]*/, ,g' message
mv teacher.safetensors gone.safetensors
zenith distill --data pictures -o small --resume 2>message
echo "status $?"
grep -o 'teacher.safetensors: .*' message
zenith distill --teacher gone.safetensors --data pictures -o small --resume -q | grep '^steps'
zenith distill --data pictures -o small --resume --steps 4
echo "status $?"
zenith distill --teacher gone.safetensors --resume small -q | grep '^steps'
zenith distill pictures --teacher gone.safetensors --student student.yaml -o other
echo "status $?"
# Without a checkpoint a run starts again, and says so.
zenith train zenith-hier --data pictures -o early --steps 1 -q | grep '^steps'
rm early/checkpoint.safetensors
zenith train --resume early --steps 1 | grep '^steps'

# The images are those of the first call, from another folder too; --data names others, or where they are now.
mkdir -p elsewhere
(cd elsewhere && zenith train --resume ../run --steps 3 -q | grep '^steps')
zenith train --resume -o run --steps 4 -q | grep '^steps'
mv pictures photos
zenith train --resume run --steps 5 2>message
echo "status $?"
sed "s,$PWD/,," message
zenith train --resume --data photos -o run --steps 5 -q | grep '^steps'
zenith train --resume run --steps 6 -q | grep '^steps'
grep -c . run/data.jsonl
zenith distill -o small --resume 2>message
echo "status $?"
sed "s,$PWD/,," message
rm run/data.jsonl
zenith train --resume run --steps 7
echo "status $?"
zenith train zenith-r -o new
echo "status $?"
