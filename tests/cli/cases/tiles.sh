# A picture cut into tiles equals the same picture done whole, up to the rounding of single samples.
makeimage in.png 300 212
model="--model random:taesd"
# same FILE DB: FILE and whole.png differ by rounding only
same() {
    zenith compare --json whole.png $1 | jsoncheck -p psnr max_difference | {
        read -r psnr
        read -r most
        [[ $psnr == null ]] || awk "BEGIN { exit !($psnr >= $2 && $most <= $3) }" || echo "$1 differs: $psnr dB, $most"
    }
}
zenith encode -q $model --tile off in.png -o whole.safetensors || exit 1
zenith decode -q $model --tile off whole.safetensors -o whole.png || exit 1
for tile in 64 128 auto; do
    zenith decode -q $model --tile $tile whole.safetensors -o tiled.png || exit 1
    same tiled.png 75 1
done
zenith decode -v $model --memory 8M whole.safetensors -o small.png 2>plan >/dev/null || exit 1
grep -o ' tiles of' plan | sort -u
same small.png 75 1
# Random weights make large latents, whose rounding the decoder magnifies.
zenith encode -q $model --tile 96 in.png -o tiled.safetensors || exit 1
zenith decode -q $model --tile off tiled.safetensors -o tiled.png || exit 1
same tiled.png 60 16
cmp -s whole.png in.png && echo "the codec does nothing"
exit 0
