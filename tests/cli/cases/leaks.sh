# Under the address sanitizer: no memory is left behind, whether the work is done or fails halfway.
export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=1"
makeimage a.png 40 24
head -c 70 a.png >bad.png
zenith encode -q --json --show --model random:taesd a.png bad.png missing.png -o latents >/dev/null 2>&1
echo "encode $?"
zenith decode -q --model random:taesd latents -o pictures
echo "decode $?"
zenith reconstruct -q --json --model random:taesd a.png -o side.webp --compare >/dev/null
echo "reconstruct $?"
zenith bench -q --size 64 --runs 1 --profile >/dev/null
echo "bench $?"
