# No weights: one sentence that says where it looked; no output file; the list of architectures still works.
makeimage a.png 24 16
export ZENITH_MODELS=$PWD/here:$PWD/there
mkdir here
zenith encode a.png -o z.safetensors
echo "encode $?"
zenith encode --model nosuch a.png -o z.safetensors
echo "named $?"
zenith reconstruct --model random:nosuch a.png -o b.png
echo "random $?"
zenith reconstruct --model random:taesdd a.png -o b.png
echo "near $?"
ls *.safetensors b.png 2>/dev/null
zenith models -q | head -2
echo "junk" >here/junk.safetensors
zenith models -q --json | jsoncheck -p models
