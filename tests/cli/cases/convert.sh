# Checkpoints to .safetensors; the number type changes only when asked.
makeimage a.png 24 16
zenith encode -q --model random:taesd a.png -o z.safetensors || exit 1
zenith convert -q z.safetensors same.safetensors || exit 1
zenith convert -q z.safetensors half.safetensors --dtype=f16 || exit 1
zenith convert -q half.safetensors back.safetensors --dtype f32 || exit 1
zenith convert --json z.safetensors brain.safetensors --dtype bf16 | jsoncheck -p format tensors dtype
for name in same half back brain; do
    grep -ao '"dtype" *: *"[A-Z0-9]*"' $name.safetensors
done
zenith convert -q a.png x.safetensors
echo "a picture $?"
[[ ! -e x.safetensors ]] || echo "x.safetensors was written"
