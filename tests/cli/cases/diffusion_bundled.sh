# edit, interpolate and sample take diffae-faces when no model is named; what lies in weights/ of that kind is whole.
source "$SOURCE/tests/cli/tiny_diffae.sh"
photos 2
recipes 2
printf 'file,Smile\n1.png,1\n2.png,0\n' >labels.csv
train auto.yaml -o auto
train latent.yaml --from auto -o latent
train classifier.yaml --from latent --labels labels.csv -o whole
zenith edit --list
echo "status $?"
mkdir -p models/diffae-faces
zenith convert -q whole/model.safetensors models/diffae-faces/model.safetensors --dtype int8 >/dev/null || exit 1
export ZENITH_MODELS=$PWD/models
zenith models --json | grep -o '"diffae-faces"' | head -1
zenith models --json | grep -oE '"(encoder|decoder|image_size|downscale)": [a-z0-9]+' # it can do what encode and decode need
zenith edit --list
zenith edit -q pictures/1.png --attribute smile --random-noise --steps 2 -o edit.png && echo "edited"
zenith edit -q pictures/1.png --attribute smile --random-noise --steps 2 -o edit.png --json | jsoncheck -p model
zenith reconstruct -q pictures/1.png -m diffae-faces --random-noise --steps 2 --json | jsoncheck -p model
zenith edit pictures/1.png --attribute smile --amount=0,-50 --random-noise --steps 2 -o edit.png 2>&1 | grep -e --amount
zenith edit pictures/1.png --attribute smile --amount=-1,2 --random-noise --steps 2 -o edit.png 2>&1 | grep -e --amount
# In a log there is a line now and then; on a terminal a bar.
ZENITH_LOG_SECONDS=0.001 zenith edit pictures/1.png --attribute smile -o edit.png 2>&1 | grep -oE '^zenith: (encode pictures/1.png|render): [0-9]+%' | sed 's/[0-9]*%//' | uniq
zenith interpolate -q pictures/*.png --random-noise --frames 2 --steps 2 -o both.png && echo "interpolated"
zenith encode -q -m diffae-faces pictures/1.png -o face.safetensors
zenith decode face.safetensors -o decoded.png 2>&1 | sed -E 's/[0-9.]+ ms/N ms/'
makeimage wide.png 90 70
zenith encode -m diffae-faces wide.png -o wide.npy 2>&1 | sed -E 's/[0-9.]+ ms/N ms/'
zenith decode wide.npy -o decoded.png 2>&1 | sed -E 's/[0-9.]+ ms/N ms/'
cp -r models/diffae-faces models/other
zenith decode face.safetensors -o decoded.png 2>&1
rm -r models/other
makeimage grey.png 64 64 1 8 grey
zenith edit -q grey.png --attribute smile --random-noise --steps 2 -o greyed.png
zenith interpolate -q grey.png grey.png --random-noise --frames 2 --steps 2 -o between.png
zenith info --json greyed.png | grep -o '"grey": true'
zenith info --json between.png | grep -o '"grey": true'
zenith sample -q --steps 2 --latent-steps 2 -o new.png && echo "sampled"
zenith reconstruct -q pictures/1.png -m diffae-faces --random-noise --steps 2 -o back.png >/dev/null && echo "reconstructed"

# The bundled ones: at most 14 MB, with all parts, and attributes that the documents name.
for name in faces:Smile pets:Cat; do
    model=$SOURCE/weights/diffae-${name%:*}
    [[ -e $model/model.safetensors ]] || { echo "$name is missing" && continue; }
    [[ $(stat -c %s "$model/model.safetensors") -le 14000000 ]] || echo "$name is larger than 14 MB"
    zenith edit --list -m "$model" | grep -qw "${name#*:}" || echo "$name has no such attribute"
    zenith sample -q -m "$model" --steps 2 --latent-steps 2 -o bundled.png >/dev/null || echo "$name draws nothing"
done
