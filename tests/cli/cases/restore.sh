# Restoring: one file, a folder, a reference, tiles that change nothing, alpha and 16 bits kept, mistakes in one sentence.
makeimage a.png 70 45
makeimage b.png 33 20
model="--model random:zenith-restore"
zenith restore -q $model a.png -o whole.png --tile off || exit 1
for tile in 64 auto; do
    zenith restore -q $model a.png -o tiled.png --tile $tile || exit 1
    cmp whole.png tiled.png
done
cmp -s a.png whole.png && echo "the network does nothing"
zenith restore -q --json $model a.png b.png -o out/ --task denoise | jsoncheck files failed model
ls out
mkdir refs && cp a.png b.png refs/
zenith restore --json $model a.png -o r.png --reference refs >json || exit 1
grep -oE '"(input_psnr|psnr|ssim|task|bits)"' json | tr '\n' ' '
echo
zenith compare --json a.png r.png | jsoncheck -p psnr >one
grep -oE '"psnr": [0-9.]+' json | cut -d' ' -f2 | cmp - one
zenith restore -q $model a.png -o side.png --compare && zenith info --json side.png | jsoncheck -p width
zenith restore -q $model a.png -o r.jpg && zenith info --json r.jpg | jsoncheck -p width height
# the task is a hint that the network gets
zenith restore -q $model a.png -o hint.png --task deblur && cmp -s hint.png whole.png && echo "the hint changes nothing"
# the strength: of two images, the result lies between them; 1 is all of it
zenith restore -q $model a.png -o full.png --strength 1 && cmp full.png whole.png
zenith restore -q $model a.png -o weak.png --strength 0.3
between() { zenith compare --json $1 $2 | jsoncheck -p psnr; }
echo "$(between a.png weak.png) $(between a.png whole.png)" | awk '{ print ($1 > $2 + 8 ? "weaker" : "as strong") }'
zenith restore -q $model a.png -o jpeg.png --task jpeg && cmp jpeg.png whole.png
zenith restore -q $model a.png
echo "status $?"
zenith restore -q $model a.png -o x.png --task sharpen
echo "status $?"
zenith restore -q --model random:taesd a.png -o x.png
echo "status $?"
zenith encode -q $model a.png -o x.safetensors
echo "status $?"
zenith restore -q $model a.png nothing.png -o some/
echo "status $?"
ls some

# JSON says what was done, not that it was left to the network: the change, and noise is smoothed.
zenith restore -q --json $model a.png -o r.png >json
grep -oE '"task": [^,]*' json
zenith compare --json a.png r.png | jsoncheck -p psnr >one
grep -oE '"change_psnr": [0-9.]+' json | grep -oE '[0-9.]+$' | cmp - one
zenith restore -q --json $model a.png -o r.png --task deblur | grep -oE '"task": "[^"]*"'
u32() { printf "\\x$(printf %02x $(($1 % 256)))\\x$(printf %02x $(($1 / 256)))\\0\\0"; }
{
    printf BM; u32 12342; u32 0; u32 54; u32 40; u32 64; u32 64; printf '\1\0\30\0'; u32 0; u32 12288; u32 0; u32 0; u32 0; u32 0
    awk 'BEGIN { for (i = 0; i < 12288; i++) { x = (x * 1103 + 12345) % 65536; printf "%c", 40 + int(x / 1024) } }'
} >noise.bmp
ZENITH_MODELS=$SOURCE/weights zenith restore -q --json noise.bmp -o r.png >json || exit 1
grep -oE '"detail": [0-9.]+' json | awk '{ print ($2 < 0.7 ? "smoother" : "as rough: " $2) }'
