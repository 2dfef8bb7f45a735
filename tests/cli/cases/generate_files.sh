# Where the parts of a model come from, what zenith info and zenith models say of them, and what does not fit.
tinymodel narrow || exit 1
tinymodel wide comfy || exit 1
gen() {
    zenith generate -q "a fox" --size 32 --steps 1 --seed 7 "$@"
    echo "status $?"
}
# A text encoder of another width is there, but does not fit: in the model's folder, or named.
cp -r narrow mixed && rm -r mixed/text_encoder && cp -r wide/text_encoders mixed/text_encoder
gen -m mixed -o x.png
gen -m narrow --text-encoder wide/text_encoders -o x.png
gen -m narrow --text-encoder wide/text_encoders/b.safetensors -o x.png
# With -m, the other parts come from its folder, not from beside the part that is named apart.
gen -m narrow --transformer wide/diffusion_models/a.safetensors -o x.png
cp -r narrow other && zenith convert -q narrow/vae other/vae/diffusion_pytorch_model.safetensors --dtype f16
gen -m narrow -o own.png
gen -m narrow --transformer other/transformer -o named.png
zenith compare --json own.png named.png | jsoncheck -p identical
# What is missing is named with files of every size; without -m the folder of a named part is searched.
mkdir alone && cp wide/diffusion_models/a.safetensors alone/
gen -m alone -o x.png
gen --transformer wide/diffusion_models/a.safetensors -o found.png
mkdir empty
gen -m empty -o x.png
# So is it in a folder of which the autoencoder alone would be a model for other commands.
mkdir gguf && cp wide/vae/c.safetensors gguf/ae.safetensors && zenith convert -q wide/diffusion_models/a.safetensors gguf/dit.gguf --dtype q8_0
gen -m gguf -o x.png
cp gguf/dit.gguf gguf/other.gguf
gen -m gguf -o x.png
rm gguf/*.gguf && zenith convert -q wide/text_encoders/b.safetensors gguf/text.gguf --dtype q8_0
gen -m gguf -o x.png
# The folder of a tokenizer, or that of the model around it.
gen -m narrow --tokenizer narrow -o around.png
gen -m narrow --tokenizer empty -o x.png
# zenith info: parts, formats, sizes, what is missing.
zenith info narrow
zenith info wide/ alone mixed
zenith info --json narrow | jsoncheck -p kind parts problem | head -c 200
echo
zenith info --json alone | jsoncheck -p problem | cut -c 1-60
cp alone/a.safetensors alone/b.safetensors
zenith info alone | tail -1
rm alone/b.safetensors
zenith convert -q wide/text_encoders/b.safetensors alone/text.gguf --dtype q8_0
zenith info alone | sed -n 4,6p
# The folder of an autoencoder is not the model beside it; a broken file says what is wrong with it.
zenith info wide/vae | sed -n '2p;4p'
head -c 60000 alone/text.gguf >cut.gguf
zenith info cut.gguf
head -c 20 alone/text.gguf >shorter.gguf
zenith info shorter.gguf
# zenith models: by folder, and ComfyUI's folder as a whole.
mkdir models && mv narrow models/z-image-turbo && mv alone models/alone
ZENITH_MODELS=$PWD/models:$PWD/wide zenith models | grep generates | sed "s#$PWD#.#"
ZENITH_MODELS=$PWD/models zenith models --json | jsoncheck -p models | grep -o '"generates": true' | wc -l
ZENITH_MODELS=$PWD/models zenith models --names | grep -x z-image-turbo
ZENITH_MODELS=$PWD/models zenith info z-image-turbo | head -2
! ls x.png 2>/dev/null
