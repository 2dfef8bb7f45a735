# Any size survives the round trip, whether or not it is a multiple of what the network wants.
for size in 1x1 8x8 9x17 37x21 64x40 7x100; do
    makeimage in.png ${size%x*} ${size#*x}
    zenith encode -q --model random:taesd in.png -o z.safetensors || exit 1
    zenith decode -q --model random:taesd z.safetensors -o out.png || exit 1
    zenith info --json out.png >info
    echo "$size $(jsoncheck -p width <info)x$(jsoncheck -p height <info)"
    zenith info --json z.safetensors >info
    jsoncheck -p width height channels image_width image_height model <info | tr '\n' ' '
    echo
done
