# Clips: frames by their numbers to one latent and back, single pictures as ever, and what does not go.
model=$SOURCE/tests/golden/wan/taew2_1.safetensors
export ZENITH_MODELS=$PWD/none
mkdir frames
for n in 1 2 3 4 5 6 7 8 9 10; do makeimage frames/f$n.png 20 12 $n; done
zenith encode -m $model --clip frames | sed 's/  [0-9.]* ms//'
zenith info frames.safetensors | sed -n '/^model/,/^downscale/p'
zenith encode -q -m $model --clip frames/f{1..10}.png -o listed.safetensors && cmp frames.safetensors listed.safetensors
zenith encode -q -m $model --clip frames -t 1 -o - >piped.safetensors && cmp frames.safetensors piped.safetensors
# Encoding is f32 unless asked otherwise.
zenith encode -q -m $model --clip frames -p f32 -o f32.safetensors && cmp frames.safetensors f32.safetensors
zenith decode -m $model frames.safetensors -o out/ | sed 's/  [0-9.]* ms//'
ls out
zenith info --json out/frames_0009.png | jsoncheck -p width height
zenith decode -m $model --format jpg --json frames.safetensors >told && jsoncheck files failed model <told
grep -oE '"(images|last|output)": [^,}]*' told
ls *.jpg | wc -l
# The second example of the library does what the program does.
02_clip $model example frames/f{1..10}.png && for n in {1..9}; do cmp example$n.png out/frames_000$n.png; done
# What is there is kept.
zenith encode -q -m $model --clip frames
echo "again: $?"
zenith decode -q -m $model --format jpg frames.safetensors
echo "pictures again: $?"
# A picture is no clip, and a clip may be one picture.
zenith encode -q -m $model frames/f1.png -o one.safetensors && zenith decode -q -m $model one.safetensors -o one.png
zenith encode -q -m $model --clip frames/f1.png -o single.safetensors && zenith decode -q -m $model single.safetensors -o single.png
cmp one.png single.png && zenith info single.safetensors | grep -c frames
# A film, where FFmpeg is built in: as many pictures as it was made of.
if zenith decode -q -m $model frames.safetensors -o film.mkv --rate 10 2>film.txt; then
    zenith encode -q -m $model --clip film.mkv -o film.safetensors
    zenith info film.safetensors | grep '^image frames'
else
    grep -q 'video is not supported in this build' film.txt && [[ ! -e film.mkv ]] && echo 'image frames    9'
fi
# An image autoencoder codes the frames one by one.
zenith encode -m $SOURCE/weights/zenith-r.safetensors --clip frames -o still.safetensors | sed 's/  [0-9.]* ms//'
zenith decode -q -m $SOURCE/weights/zenith-r.safetensors still.safetensors -o still/
zenith reconstruct -q -m $SOURCE/weights/zenith-r.safetensors frames/f10.png -o alone.png >alone.txt && cmp alone.png still/still_0010.png
# Several videos in one file: the names are of the first and the last image.
array() { printf '\x93NUMPY\1\0\x76\0%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': $1, }"; }
{ array "(2, 16, 2, 2, 2)"; head -c 1024 /dev/zero; } >two.npy
zenith decode -m $model two.npy -o two.png | sed 's/  [0-9.]* ms//'
ls two_*
zenith decode -m $model two.npy -o two.png --json | grep -o '"output": [^,}]*' | sort -u
# What does not go.
{ array "(1, 16, 2, 2, 2)"; head -c 508 /dev/zero; printf '\0\0\x80\x7f'; } >infinite.npy
zenith decode -q -m $model infinite.npy -o no.png
echo "infinity: $?"
zenith encode -q -m $model --clip frames/f1.png frames/f2.png
echo "no name: $?"
zenith encode -q -m $model --clip frames -o clip.png
echo "no tensor: $?"
zenith encode -q -m $SOURCE/weights/zenith-restore.safetensors --clip frames -o clip.safetensors
echo "no autoencoder: $?"
zenith decode -q -m random:taesd3 frames.safetensors -o no.png
echo "no video decoder: $?"
zenith decode -q -m $model frames.safetensors -o - | cat
makeimage frames/f5.png 12 20
zenith encode -q -m $model --clip frames -o clip.safetensors
echo "another size: $?"
rm frames/f5.png
zenith encode -q -m $model --clip frames/f{4..6}.png -o clip.safetensors
echo "a frame is missing: $?"
zenith encode -q -m $model --clip --memory 64K frames -o clip.safetensors
echo "too little memory: $?"
ls clip.safetensors no* 2>/dev/null
echo done
