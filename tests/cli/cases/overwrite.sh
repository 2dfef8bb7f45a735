# No input is ever replaced by a result; a file that -o names is replaced; one that it does not name is kept.
makeimage a.png 24 16
cp a.png keep.png
ln a.png hard.png
ln -s a.png soft.png
for out in a.png ./a.png hard.png soft.png; do
    zenith encode -q --model random:taesd a.png -o $out
    echo "encode -o $out: $?"
    zenith reconstruct -q --model random:taesd a.png -o $out
    echo "reconstruct -o $out: $?"
done 2>&1 | grep -v ^try
zenith encode -q --model random:taesd a.png --format png
echo "beside: $?"
mkdir in
cp a.png in
zenith encode -q --model random:taesd in -o in --format png
echo "into its own folder: $?"
cmp a.png keep.png && cmp in/a.png keep.png || echo "an input was changed"

zenith encode -q --model random:taesd a.png && echo "first encode"
zenith decode -q --model random:taesd a.safetensors
echo "decode over the picture: $?"
cmp a.png keep.png || echo "the picture was replaced"
echo old >a.safetensors
zenith encode -q --model random:taesd a.png
echo "second encode: $?"
zenith encode -q --force --model random:taesd a.png && echo "forced encode"
zenith decode -q --model random:taesd a.safetensors -o out.png && echo "decode"
echo old >out.png
zenith decode -q --model random:taesd a.safetensors -o out.png && echo "decode again"
zenith info --json out.png | jsoncheck -p width
zenith convert a.safetensors ./a.safetensors
echo "convert onto itself: $?"
# Two inputs never share a result.
mkdir twins
cp a.png twins/x.png
cp a.png in/x.png
zenith encode -q --model random:taesd twins/x.png in/x.png -o results
echo "twins: $?"
ls results
