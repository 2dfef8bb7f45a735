# Where no model is named it is zenith-r, whatever else lies beside or before it; without it the only one; of several none.
makeimage a.png 24 16
bundled=$SOURCE/weights/zenith-r.safetensors
printf 'model: taesd\nwidth: 8\nbatch: 1\nsize: 16\nsteps: 1\nwarmup: 1\nheld_out: 0\nloss: {bands: 0}\n' >small.yaml
mkdir pictures first second empty
cp a.png pictures
zenith train -q small.yaml --data pictures -o run >/dev/null || exit 1
used() { zenith encode -q a.png -o z.safetensors && zenith info z.safetensors | sed -n 's/^model  *//p'; }
cp run/model.safetensors first/a.safetensors
cp $bundled second/zenith-r.safetensors
export ZENITH_MODELS=$PWD/first:$PWD/second
used
echo "--- beside others"
cp run/model.safetensors second/a-model.safetensors
used
echo "--- the only one, in two places"
rm second/*
cp run/model.safetensors second/a.safetensors
used
echo "--- a damaged one is not the default"
head -c 5000 $bundled >first/zenith-r.safetensors
used
echo "--- of several none"
cp run/model.safetensors second/b.safetensors
used
echo "status $?"
zenith bench --runs 1 --size 32x32
echo "status $?"
echo "--- nothing but the damaged one"
rm first/a.safetensors second/*
used
echo "status $?"
