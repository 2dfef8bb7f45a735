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

zenith convert -q z.safetensors z.gguf || exit 1
zenith convert --json z.gguf back2.safetensors --dtype f32 | jsoncheck -p format tensors dtype
zenith convert --json z.safetensors z8.gguf --dtype q8_0 | jsoncheck -p tensors dtype
zenith convert z.safetensors x.safetensors --dtype q4_k
echo "blocks $?"
zenith convert z.safetensors x.gguf --dtype mlx4
echo "codes $?"
zenith convert z.safetensors x.bin
echo "neither $?"
zenith convert -q nowhere x.gguf --dtype q4_0
echo "nothing $?"
[[ ! -e x.gguf ]] || echo "x.gguf was written"

# The shards of a folder, or of an index, become one file; a whole model is several networks.
tinymodel shards diffusers || exit 1
zenith convert --json shards/transformer one.safetensors | jsoncheck -p format tensors dtype
zenith convert --json shards/text_encoder/model.safetensors.index.json text.safetensors --dtype bf16 | jsoncheck -p tensors dtype
zenith generate -q "a fox" -m shards --size 32 --steps 1 --seed 7 -o a1.png
zenith generate -q "a fox" -m shards --transformer one.safetensors --size 32 --steps 1 --seed 7 -o a2.png
zenith compare --json a1.png a2.png | jsoncheck -p identical
zenith convert --json shards/transformer one8.safetensors --dtype int8 | jsoncheck -p dtype
grep -ao '"dtype" *: *"I8"' one8.safetensors | sort -u
zenith convert -q one8.safetensors one32.safetensors --dtype f32
zenith generate -q "a fox" -m shards --transformer one8.safetensors -p f32 --size 32 --steps 1 --seed 7 -o a3.png
zenith generate -q "a fox" -m shards --transformer one32.safetensors -p f32 --size 32 --steps 1 --seed 7 -o a4.png
zenith compare --json a3.png a4.png | jsoncheck -p identical
zenith convert one.safetensors x.gguf --dtype int8
echo "rows $?"
zenith convert "$SOURCE/weights/zenith-restore-fast.safetensors" fast8.safetensors --dtype int8 | grep types
zenith convert "$SOURCE/weights/zenith-restore-fast.safetensors" fastf8.safetensors --dtype fp8 | grep types
zenith convert shards x.safetensors
echo "several $?"
zenith convert shards/transformer shards/transformer/diffusion_pytorch_model-00001-of-00003.safetensors
echo "shard $?"
# Rows that are not whole blocks have another type, which is reported.
tinymodel narrow || exit 1
zenith convert narrow/transformer narrow.gguf --dtype q4_k
zenith convert shards/transformer wide.gguf --dtype q4_k --json | jsoncheck -p types
zenith convert narrow/transformer narrow.safetensors --dtype mlx4 | sed -n 5p
[[ ! -e x.safetensors ]] || echo "x.safetensors was written"
