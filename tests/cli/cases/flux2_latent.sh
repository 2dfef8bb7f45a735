# A latent of FLUX.2 is decoded by the bundled zenith-f2 where no other model has its channels; zenith-r stays the default.
export ZENITH_MODELS=$SOURCE/weights
makeimage a.png 48 32
zenith encode -q a.png -o own.safetensors && zenith info own.safetensors | grep '^model'
zenith encode -q -m zenith-f2 a.png -o named.safetensors || exit 1
zenith info named.safetensors | grep -E '^(model|width|height|channels) '
zenith decode -q named.safetensors -o named.png
sed 's/"model"/"xxxxx"/' named.safetensors >unnamed.safetensors # a fact that nobody reads
sed 's/"zenith-f2"/"taef2"    /' named.safetensors >taef2.safetensors
for latent in unnamed taef2; do
    zenith decode $latent.safetensors -o $latent.png >/dev/null && cmp $latent.png named.png && echo "$latent decoded"
done
# ComfyUI's files have them packed.
zenith encode -q -m zenith-f2 a.png -o comfy.latent && zenith decode comfy.latent -o comfy.png >/dev/null
cmp comfy.png named.png && echo "packed decoded"
