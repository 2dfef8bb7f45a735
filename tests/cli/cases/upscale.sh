# Upscaling: by two and four, tiles that change nothing, a folder, grey, alpha, 16 bits and metadata kept, mistakes in one
# sentence.
makeimage a.png 70 45
makeimage b.png 33 21
model="--model random:zenith-restore"
zenith upscale -q $model a.png -o whole.png --tile off && zenith info --json whole.png | jsoncheck -p width height
for tile in 64 auto; do
    zenith upscale -q $model a.png -o tiled.png --tile $tile || exit 1
    cmp whole.png tiled.png
done
zenith upscale -q $model whole.png -o twice.png
zenith upscale -q $model a.png -o four.png --scale 4 && zenith info --json four.png | jsoncheck -p width height
cmp twice.png four.png
# a budget that is too small for the second pass is refused before the first
zenith upscale -q $model a.png -o none.png --scale 4 --memory 1M 2>&1 | grep -o 'for an image of [0-9x]*'
zenith upscale -q --json $model a.png b.png -o out/ | jsoncheck files failed model
ls out
zenith upscale --json $model b.png -o b2.png >json || exit 1
grep -oE '"(bits|scale|upscale_ms|task|restore_ms)"' json | tr '\n' ' '
echo
# grey, 16 bits and alpha stay: colour types 0 (grey) and 6 (RGBA)
type() { od -An -tu1 -j24 -N2 "$1"; }
makeimage deep.png 20 12 1 16 grey
zenith upscale -q $model deep.png -o deep2.png && type deep2.png
printf '%s' iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAYAAAAf8/9hAAAAGUlEQVR42mM4kWLUQAlmGDVg1IBRA4aLAQCx9d4QaEUtFQAAAABJRU5ErkJggg== | base64 -d >alpha.png
zenith upscale -q $model alpha.png -o alpha4.png --scale 4 && type alpha4.png && zenith info --json alpha4.png | jsoncheck -p width
# so does metadata, unless it is stripped
makeimage plain.jpg 40 24
xmp='http://ns.adobe.com/xap/1.0/\0<x tiff:Orientation="1" dc:rights="mine"/>'
{ head -c 2 plain.jpg; printf "\xff\xe1\x00\x49$xmp"; tail -c +3 plain.jpg; } >photo.jpg
zenith upscale -q $model photo.jpg -o large.jpg && grep -aco 'rights="mine"' large.jpg
zenith upscale -q $model photo.jpg -o bare.jpg --strip && grep -aco 'rights="mine"' bare.jpg
zenith upscale -q $model a.png
echo "status $?"
zenith upscale -q $model a.png -o x.png --scale 3
echo "status $?"
zenith upscale -q --model random:taesd a.png -o x.png
echo "status $?"
zenith restore -q $model --fast a.png -o x.png
echo "status $?"
# a network that learns to enlarge says so, and is reported by the name of its weights
mkdir photos
for n in 1 2 3; do makeimage photos/$n.png 40 3$n; done
export ZENITH_MODELS=$PWD/models
for name in upscale restore; do
    zenith train -q $name --data photos -o models/my-$name --set width=8 --set batch=1 --set size=16 --set steps=1 --set warmup=1 \
        --set held_out=0 >/dev/null || exit 1
done
zenith models | grep -oE '^ +my-[a-z]+ +[a-z]+' | tr -s ' '
# a model for the other task gets a remark
zenith upscale --model my-upscale b.png -o c.png >/dev/null
zenith upscale --model my-restore b.png -o c.png >/dev/null
zenith restore --model my-restore b.png -o c.png >/dev/null
zenith restore --model my-upscale b.png -o c.png >/dev/null
zenith upscale -q --json --model my-upscale b.png -o c.png | jsoncheck -p model
zenith restore -q --json --model my-restore b.png -o c.png | jsoncheck -p model
