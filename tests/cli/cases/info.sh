# What a file is, for everything the program reads.
makeimage a.png 40 24
zenith encode -q --model random:taesd a.png -o z.safetensors || exit 1
zenith info a.png
# a scan in black and white
printf '%s' iVBORw0KGgoAAAANSUhEUgAAAAgAAAACAQAAAABN76BAAAAADElEQVR4nGNYxRAKAAJXAQBmTxmPAAAAAElFTkSuQmCC | base64 -d >fax.png
zenith info fax.png | grep -E '^(bits|grey)'
zenith info z.safetensors
zenith encode -q --model random:taesd a.png -o z.npy || exit 1
zenith info z.npy | grep -E "^(model|image|downscale)"
zenith info -q random:taesd --size 64x32
zenith convert -q z.safetensors plain.safetensors
# GGUF: one key, one matrix of a Q4_0 block and one vector of floats
printf 'GGUF\3\0\0\0\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0' >w.gguf
printf '\1\0\0\0\0\0\0\0k\10\0\0\0\5\0\0\0\0\0\0\0value' >>w.gguf
printf '\1\0\0\0\0\0\0\0a\2\0\0\0\40\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0' >>w.gguf
printf '\1\0\0\0\0\0\0\0b\1\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\40\0\0\0\0\0\0\0' >>w.gguf
head -c $(((32 - $(stat -c %s w.gguf) % 32) % 32 + 40)) /dev/zero >>w.gguf
zenith info w.gguf
zenith info --json w.gguf | jsoncheck -p format tensor_count element_count
zenith info "$SOURCE/tests/golden/zimage/dit_mlx4.safetensors" | grep -E "^(architecture|description)"
zenith info --json "$SOURCE/tests/golden/zimage/qwen3.safetensors" | jsoncheck -p architecture
head -c 100 w.gguf >cut.gguf
zenith info cut.gguf
echo "cut $?"
echo hello >text
zenith info text
echo "text $?"
zenith info missing.png
echo "missing $?"
mkdir folder
zenith info folder
echo "folder $?"
