# A picture cut into tiles is the same picture, bit for bit, as the one done whole.
makeimage in.png 300 212
model="--model random:taesd"
same() { cmp -s $1 $2 || echo "$2 differs from $1"; }
zenith encode -q $model --tile off in.png -o whole.safetensors || exit 1
zenith decode -q $model --tile off whole.safetensors -o whole.png || exit 1
for tile in 64 128 auto; do
    zenith decode -q $model --tile $tile whole.safetensors -o tiled.png || exit 1
    same whole.png tiled.png
done
# The least depends on the number of threads, which another program may change meanwhile.
model="$model --threads 2"
zenith decode -q $model --memory 1M whole.safetensors -o small.png 2>refusal && echo "1M is enough"
least=$(sed 's/.*least is \([0-9]*\).*/\1/' refusal)
if ! zenith decode -v $model --memory ${least}M whole.safetensors -o small.png 2>plan >/dev/null; then
    cat refusal plan
    exit 1
fi
grep -o 'in bands of' plan
grep -cv '^zenith: ' plan
same whole.png small.png
zenith encode -q $model --tile 96 in.png -o tiled.safetensors || exit 1
same whole.safetensors tiled.safetensors
cmp -s whole.png in.png && echo "the codec does nothing"
exit 0
