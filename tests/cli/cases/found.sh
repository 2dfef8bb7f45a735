# Models are found once each, whatever their files are called, and a training run stands for the model in it.
mkdir pictures
for n in 1 2 3; do makeimage pictures/$n.png 24 1$n; done
printf 'model: taesd\nwidth: 8\nbatch: 1\nsize: 16\nsteps: 1\nwarmup: 1\nheld_out: 0\nloss: {bands: 0}\n' >small.yaml
export ZENITH_MODELS=$PWD/models
mkdir models
zenith train -q small.yaml --data pictures -o models/first >/dev/null || exit 1
ls models/first | grep safetensors
for name in first models/first; do zenith info $name | grep -oE 'models/first.*'; done
zenith encode -q --model models/first pictures/1.png -o z.safetensors && echo "encoded"
mkdir models/pair
for part in taesd_decoder taesd_distilled_decoder taesd_distilled_encoder taesd_encoder; do
    cp models/first/model.safetensors models/pair/$part.safetensors
done
zenith models --json | jsoncheck models
zenith models | grep -oE 'models/[a-z]+/?[a-z_]*'
# Every name and every path that is printed is one for --model.
zenith models --names
for model in $(zenith models --names) $(zenith models | sed -nE '/^weights/,$s/^  .*, //p'); do
    zenith encode -q --model $model pictures/1.png -o z.safetensors || echo "$model is refused"
done
zenith encode --model frist pictures/1.png
zenith train small.yaml --from tesad --data pictures -o other
zenith distill --teacher taesd3 --student zenith-r --data pictures -o other
zenith encode -q --model models/pair pictures/1.png
echo "status $?"
