# Video: what a file is; and without FFmpeg's libraries a sentence before the work, not after it.
model=$SOURCE/tests/golden/wan/taew2_1.safetensors
export ZENITH_MODELS=$PWD/none
mkdir frames missing
for n in 1 2 3 4 5; do makeimage frames/$n.png 32 16 $n; done
zenith encode -q -m $model --clip frames -o clip.safetensors
if zenith decode -q -m $model clip.safetensors -o video.mkv --rate 10 2>none.txt; then
    zenith info video.mkv | grep -E '^(kind|width|height|frames|rate)'
    zenith info --json video.mkv | jsoncheck codec frames
else # what a build without them says, of reading and of writing
    grep -q 'video is not supported in this build' none.txt && : >video.mkv && zenith info video.mkv 2>&1 |
        grep -q 'video is not supported in this build' && printf '%s\n' 'kind            video' 'width           32' \
        'height          16' 'frames          5' 'rate            10.000 frames/s'
fi
# Libraries that were there at build time and are broken now. The inputs do not exist: nobody may get that far.
for version in {50..70}; do : >missing/libavutil.so.$version; done
export LD_LIBRARY_PATH=$PWD/missing
zenith decode -q -m $model nosuch.safetensors -o new.mp4
zenith decode -q -m $model nosuch.safetensors --format mkv -o out/
zenith encode -q -m $model --clip nosuch.png video.mkv -o new.safetensors
zenith interpolate -q -m nosuch frames/1.png frames/2.png -o new.mp4
zenith info -q video.mkv
ls new* out 2>/dev/null
echo done
