# Random weights: said plainly, the same for the same seed, different for another.
makeimage a.png 24 16
zenith encode --model random:taesd a.png -o 0.safetensors >/dev/null || exit 1
zenith encode --model random:taesd --seed 5 a.png -o 5.safetensors >/dev/null || exit 1
zenith encode -q --model random:taesd --seed=5 a.png -o 5b.safetensors || exit 1
cmp 5.safetensors 5b.safetensors
cmp -s 0.safetensors 5.safetensors && echo "the seed changes nothing"
zenith bench --size 64 --runs 1 >/dev/null
