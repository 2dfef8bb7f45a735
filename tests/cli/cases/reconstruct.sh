# The round trip in one command equals encode and decode, and --compare sets three pictures side by side.
makeimage a.png 40 24
zenith reconstruct -q --model random:taesd a.png -o r.png
zenith encode -q --model random:taesd a.png -o z.safetensors || exit 1
zenith decode -q --model random:taesd z.safetensors -o d.png || exit 1
zenith compare --json r.png d.png | jsoncheck -p max_difference
zenith reconstruct -q --json --model random:taesd a.png -o side.png --compare >json || exit 1
zenith info --json side.png >info
[[ $(jsoncheck -p width <info) -ge 120 ]] || echo "side.png is too narrow"
# Its figures are those of the picture that decode writes.
zenith compare --json a.png d.png | jsoncheck -p psnr ssim >one
jsoncheck -p psnr ssim <json | cmp - one
# Several pictures: a line each, and what one of them alone gives.
makeimage b.png 33 20 2
zenith reconstruct --model random:taesd a.png b.png none.png -o many 2>/dev/null | sed -E 's/  .*//; s/: .* dB/: N dB/'
cmp many/a.png r.png
zenith reconstruct -q --json --model random:taesd a.png b.png -o many | tee several | jsoncheck files failed model mean
# The mean is that of the single figures.
for f in a b; do zenith reconstruct -q --json --model random:taesd $f.png | jsoncheck -p psnr; done | awk '{ s += $1 } END { printf "%.4f\n", s / NR }' >one
grep -oE '"mean": .*' several | grep -oE '"psnr": [0-9.]+' | awk '{ printf "%.4f\n", $2 }' | cmp - one
# Without -o, several write nothing, as one does, and have the same figures.
mkdir both
cp a.png b.png both
zenith reconstruct --model random:taesd both 2>/dev/null | sed -E 's/: .* dB/: N dB/; s/  .*//'
zenith reconstruct -q --json --model random:taesd both >unwritten || echo "status $?"
jsoncheck files failed model mean <unwritten
for json in several unwritten; do grep -oE '"mean": .*' $json | grep -oE '"(images|psnr|ssim)": [0-9.]+' >$json.mean; done
cmp several.mean unwritten.mean
ls both
