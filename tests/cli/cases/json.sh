# --json: exactly one valid object on stdout, with the members scripts rely on; also when the command fails.
makeimage a.png 40 24
makeimage b.png 40 24 9
cp a.png $'odd "name"\twith\\\xff.png'
check() { "${@:2}" | jsoncheck $1 || echo "failed: ${*:2}"; }
model="--model random:taesd"
check "files failed model" zenith encode --json -v $model a.png -o z.safetensors 2>/dev/null
check "files failed model" zenith encode --json -q $model -o folder odd*.png b.png
check "files failed model" zenith decode --json -q $model z.safetensors -o out.png
check "files failed" zenith decode --json -q $model a.png missing -o out 2>/dev/null
check "model width height psnr ssim encode_ms decode_ms output" zenith reconstruct --json -q $model a.png -o out.png
check "model width height psnr ssim encode_ms decode_ms output" zenith reconstruct --json -q $model a.png --show 2>/dev/null
check "psnr ssim max_difference identical" zenith compare --json a.png b.png
check "psnr ssim max_difference identical" zenith compare --json a.png b.png --show 2>/dev/null
for file in a.png z.safetensors random:taesd; do check "file kind" zenith info --json -q $file; done
zenith info --json -q --size 64x32 random:taesd | jsoncheck architecture parameters latent_channels encode decode
check "input output dtype tensors" zenith convert --json z.safetensors half.safetensors --dtype f16
check "architectures models" zenith models --json -q
check version zenith version --json
check version zenith --version --json
check version zenith encode --json --version
bench="model part width height threads precision precision_asked precision_share isa ms_median ms_min cpu_ms runs gflop gflops peak_gflops rss_mb"
check "$bench" zenith bench --json -q --size 64 --runs 2
check "$bench bandwidth layers" zenith bench --json -q --size 64x40 --runs 1 --part encode --profile
check error zenith reconstruct --json missing.png $model 2>/dev/null
check error zenith encode --json a.png -o x.safetensors 2>/dev/null
check error zenith compare --json a.png missing.png 2>/dev/null
check error zenith info --json missing.png 2>/dev/null
# Wrong usage too, and several files of which some fail, which have the error beside their results.
zenith --json encode a.png 2>/dev/null | jsoncheck -p error
zenith nosuch --json 2>/dev/null | jsoncheck -p error
zenith encode a.png --json --nosuch 2>/dev/null | jsoncheck -p error
zenith encode --json 2>/dev/null | jsoncheck -p error
zenith encode --json -q $model a.png missing.png -o folder 2>/dev/null | jsoncheck -p failed error
zenith encode --json -q $model missing.png gone.png -o folder 2>/dev/null | jsoncheck -p failed error
zenith info --json -q a.png missing.png 2>/dev/null | jsoncheck -p error files | sed -E 's/"bytes": [0-9]+/"bytes": N/'
zenith encode --json -q $model a.png -o folder | jsoncheck error 2>/dev/null && echo "an error without a failure"
zenith encode -q $model a.png -o bare.npy
zenith info --json bare.npy | jsoncheck -p width image_width image_height downscale
zenith compare --json a.png a.png | jsoncheck -p psnr ssim max_difference identical
zenith reconstruct --json -q $model a.png -o out.png | jsoncheck -p model width height output
zenith bench --json -q --size 64x40 --runs 3 --threads 1 | jsoncheck -p model part width height threads precision runs
