# A part with a wrong tensor is not a model without that part: the tensor is named, with what it should be.
makeimage a.png 24 16
export ZENITH_MODELS=$PWD/none
good=$SOURCE/weights/zenith-r.safetensors
zenith encode -q -m $good a.png -o a.safetensors || exit 1
# Changes the shape of a tensor in the header to one of as many numbers.
reshape() { sed "s/\(\"$2\":{\"dtype\":\"[A-Z0-9]*\",\"shape\":\)\[$3\]/\1[$4]/" "$1" >"$5"; }
reshape $good dec.out.weight 3,3,32,3 9,1,32,3 out.safetensors
zenith decode -q -m out.safetensors a.safetensors -o b.png
reshape $good enc.stem.weight 3,3,3,32 9,1,3,32 stem.safetensors
zenith encode -q -m stem.safetensors a.png -o b.safetensors
sed 's/"dec.up1.weight"/"dec.xx1.weight"/' $good >missing.safetensors
zenith decode -q -m missing.safetensors a.safetensors -o b.png
# The same with names of TAESD, which are numbers.
mkdir pictures
for n in 1 2; do makeimage pictures/$n.png 24 16 $n; done
printf 'model: taesd\nwidth: 8\nbatch: 1\nsize: 16\nsteps: 1\nwarmup: 1\nheld_out: 0\nloss: {bands: 0}\n' >small.yaml
zenith train -q small.yaml --data pictures -o run >/dev/null || exit 1
reshape run/model.safetensors decoder.19.weight 3,8,3,3 8,3,3,3 taesd.safetensors
zenith decode -q -m taesd.safetensors a.safetensors -o b.png
# A file of one part is what it was.
sed 's/"enc\./"xyz./g' $good >alone.safetensors
zenith decode -q -m alone.safetensors a.safetensors -o b.png && echo "a decoder alone"
zenith encode -q -m alone.safetensors a.png -o c.safetensors
ls b.safetensors c.safetensors 2>/dev/null
echo done
