# A latent that names no model: the only model that fits is assumed, aloud; of several, none is.
makeimage a.png 24 16
zenith encode -q -m random:taesd3 a.png -o named.safetensors || exit 1
sed 's/"model"/"xxxxx"/' named.safetensors >unnamed.safetensors # a fact that nobody reads
export ZENITH_MODELS=$PWD/models
mkdir models
zenith decode unnamed.safetensors -o none.png
echo "none fits: $?"
cp $SOURCE/weights/zenith-r.safetensors models/
zenith decode unnamed.safetensors -o one.png >/dev/null
echo "one fits: $?"
zenith decode -q named.safetensors -o said.png >/dev/null
echo "the named one is not there: $?"
zenith decode -q -m models/zenith-r unnamed.safetensors -o given.png && cmp one.png given.png && cmp one.png said.png
mkdir models/copies
cp models/zenith-r.safetensors models/copies/ # the same model in a second place
zenith decode -q unnamed.safetensors -o again.png && cmp one.png again.png
cp models/zenith-r.safetensors models/other.safetensors
zenith decode unnamed.safetensors -o several.png
echo "several fit: $?"
zenith decode -q -m other unnamed.safetensors -o other.png && cmp one.png other.png
ls none.png several.png 2>/dev/null
zenith decode --json unnamed.safetensors -o several.png 2>/dev/null | grep -o '"error": "[^(]*'
