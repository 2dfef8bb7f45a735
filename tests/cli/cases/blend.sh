# Tiles of a video that are blended: a tile that holds the whole frame gives the exact result, smaller ones nearly it.
model=$SOURCE/tests/golden/wan/taew2_1.safetensors
export ZENITH_MODELS=$PWD/none
mkdir frames
for n in 1 2 3 4 5; do makeimage frames/$n.png 240 40 $n; done
zenith encode -q -m $model --clip frames -o exact.safetensors
zenith encode -q -m $model --clip frames --tile 256 --blend -o one.safetensors
cmp exact.safetensors one.safetensors && echo 'one tile: the same latent'
zenith encode -q -m $model --clip frames --tile 128 --blend -o tiles.safetensors
zenith info tiles.safetensors | grep -E '^(width|height|frames|image frames) '
zenith decode -q -m $model exact.safetensors -o exact/
zenith decode -q -m $model exact.safetensors --tile 256 --blend -o one/
cmp exact/exact_0005.png one/exact_0005.png && echo 'one tile: the same images'
zenith decode -q -m $model exact.safetensors --tile 128 --blend -o tiles/
ls tiles | wc -l
cmp -s exact/exact_0005.png tiles/exact_0005.png || echo 'tiles: other images'
zenith decode -q -m $model exact.safetensors --blend -o no/
zenith decode -q -m $model exact.safetensors --tile 100 --blend -o no/
zenith encode -q -m $model frames/1.png --tile 128 --blend -o no.safetensors
zenith encode -q -m random:taesd --clip frames --tile 128 --blend -o no.safetensors
ls no* 2>/dev/null
echo done
