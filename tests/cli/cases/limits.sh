# What the format of the result cannot hold is refused before the work: nothing is written, the other files are done.
makeimage wide.png 16384 8
makeimage half.png 8192 8
makeimage third.png 5456 8
makeimage a.png 32 32
try() { zenith "$@" -q; echo "$1 $?"; }
try restore -m random:zenith-restore wide.png -o result.webp
try restore -m random:zenith-restore third.png --compare -o result.webp
try upscale -m random:zenith-restore half.png a.png -o large/ --format webp
try reconstruct -m random:taesd wide.png -o result.webp
try reconstruct -m random:taesd third.png --compare -o result.webp
try reconstruct -m random:taesd wide.png -o large/ --format webp
zenith encode -q -m random:taesd wide.png -o wide.safetensors
zenith encode -q -m random:taesd --clip wide.png wide.png -o clip.safetensors
try decode -m random:taesd wide.safetensors -o result.webp
try decode -m random:taesd clip.safetensors -o large/ --format webp
try decode -m random:taesd wide.safetensors -o large/ --format jpg --bits 16
try decode -m random:taesd clip.safetensors -o result.mp4 --bits 16
try generate "a house" --size 16384x16 -o result.webp
try generate "a house" --size 16384x16 -o - --format webp
try interpolate -m random:diffae-ffhq256 a.png a.png --random-noise --frames 4200 -o result.webp
ls . large
