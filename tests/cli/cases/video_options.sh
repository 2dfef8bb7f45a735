# Options that videos do not take are refused before the work; folders called like videos are folders. The files and models
# that are not there are not looked for.
export ZENITH_MODELS=$PWD/none
try() { zenith "$@"; echo "$1: $?"; }
try reconstruct nosuch.mp4 -m nosuch --keep 10% -o out.mp4
try reconstruct nosuch.mp4 -m nosuch --scale 2 -o out.mp4
for option in "--steps 3" --ddpm --random-noise "--format webp"; do try reconstruct nosuch.mp4 -m nosuch $option -o out.mp4; done
mkdir dir.mp4
makeimage dir.mp4/a.png 32 32
try encode -q dir.mp4 -m random:taesd -o latents
try encode -q dir.mp4 -m random:taesd --batch -o latents.safetensors
try encode -q dir.mp4 -m $SOURCE/tests/golden/wan/taew2_1.safetensors --clip -o clip.safetensors
try reconstruct -q dir.mp4 -m random:taesd -o again
try restore -q dir.mp4 -m random:zenith-restore -o restored
try upscale -q dir.mp4 -m random:zenith-restore -o large
ls latents again restored large
# The quality of videos cannot be set; that of images in a folder called like a video can.
for settings in "--quality 50" --lossless; do
    try decode nosuch.safetensors -m nosuch $settings -o out.mp4
    try decode nosuch.safetensors -m nosuch $settings --format mp4 -o folder/
    try decode nosuch.safetensors -m nosuch $settings --format mp4
    try interpolate nosuch.png nosuch.png -m nosuch $settings -o out.mp4
done
for result in dir.mp4 dir.mp4/z.jpg; do
    try decode -q latents/a.safetensors -m random:taesd --format jpg --quality 50 -o $result
    try decode -q latents/a.safetensors -m random:taesd --format mp4 --quality 50 -o dir.mp4/z.jpg -f
done
ls dir.mp4
# A name that is neither: images, videos and folders are named.
try decode nosuch.safetensors -m nosuch -o v.gif
try decode nosuch.safetensors -m nosuch --format gif -o folder/
