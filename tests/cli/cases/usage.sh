# Wrong usage: one sentence, where to look, exit status 2, nothing on stdout.
touch a.png
try() {
    zenith "$@"
    echo "$?" >>statuses
}
try
try foo
try encod a.png
try --jsn encode a.png
try encode
try compare a.png
try compare a.png b.png c.png
try bench a.png
try encode a.png --foo
try encode a.png --thread 2
try encode a.png --treads=2
try encode a.png --modle zenith-r
try encode a.png --forec
try encode a.png -x
try encode a.png -vx
try encode a.png --threads
try encode a.png --threads 2x
try encode a.png --threads=
try encode a.png --quiet=yes
try encode a.png --precision f64
try encode a.png --tile=-1
try encode a.png --tile 1
try encode a.png --memory lots
try encode a.png --memory 10
try encode a.png --format jpg
try encode a.png -o out.gif
try encode a.png -o out
try decode a.png -o out.bmp
try reconstruct a.png -o out.txt
try reconstruct a.png --compare
try bench --size 0x5
try bench --size 5x
try bench --runs 0
try bench --part both
try convert a.png b.pth
try convert a.png b.safetensors --dtype f64
try encode a.png --size 5
try reconstruct a.png -p fp8
# Values that only the model, or the recipe, can judge.
export ZENITH_MODELS=$SOURCE/weights
makeimage b.png 32 32
mkdir pictures
cp b.png pictures
try generate fox -m zenith-mini -o x.png --size 120
try generate fox -m zenith-mini -o x.png --size 32000
try reconstruct b.png -m zenith-r --keep 10%
try train zenith-r --set lr=fast --data pictures -o run
try train zenith-r --set nosuch=1 --print
try distill --teacher random:taesd --student zenith-r --set nosuch=1 --data pictures -o run
try serve --listen 0.0.0.0:0
sort -u statuses
zenith help foo
