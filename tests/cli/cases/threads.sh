# The number of threads does not change a single byte; neither does a second run.
makeimage in.png 203 120
for n in 1 2 3; do
    zenith encode -q --model random:taesd --threads $n in.png -o z$n.safetensors || exit 1
    zenith decode -q --model random:taesd --threads $n z$n.safetensors -o out$n.png || exit 1
done
cmp z1.safetensors z2.safetensors && cmp z1.safetensors z3.safetensors && cmp out1.png out2.png && cmp out1.png out3.png
