# What computes: the CPU is the default, and a GPU that is not there, or that this build knows nothing of, is said plainly.
makeimage a.png 24 16
zenith encode -q -m random:taesd a.png -o 0.safetensors || exit 1
zenith encode -q -m random:taesd a.png -o 1.safetensors --device cpu || exit 1
cmp 0.safetensors 1.safetensors
zenith encode -q -m random:taesd a.png -o 2.safetensors --device tpu
echo "status $?"
if ! zenith encode -q -m random:taesd a.png -o 3.safetensors --device cuda 2>why; then
    [[ $(wc -l <why) == 1 ]] || echo "not one sentence"
    grep -qE "this build has no CUDA|this machine has no GPU" why || cat why
    [[ -e 3.safetensors ]] && echo "a latent all the same"
fi
zenith edit a.png -m random:taesd --device cuda -o 4.png 2>/dev/null
echo "status $?"
