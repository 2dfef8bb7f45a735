# The generator that comes with the program: found without -m, with settings of its own, and the image that it should make.
export ZENITH_MODELS=$SOURCE/weights
zenith generate "a portrait of a smiling woman" --seed 1 -o woman.png | sed -E 's/[0-9.]+ s$/N s/'
zenith info woman.png | grep -o 'Steps: .*, Model: [a-z-]*'
# Processors round differently; another autoencoder or damaged weights give another image.
zenith compare --json woman.png "$SOURCE/tests/cli/cases/generate_bundled.jpg" | jsoncheck -p psnr | awk '{ print ($1 > 28 ? "the same woman" : "another image: " $1 " dB") }'
[[ $(du -sbL "$ZENITH_MODELS/zenith-mini" | cut -f1) -le 25000000 ]] || echo "larger than 25 MB"
# Its own decoder makes previews: the one of the last step is the image.
zenith generate "a portrait of a man" --seed 1 --steps 2 -o man.png --preview=step.png -q && zenith compare --json --lpips none step.png man.png | jsoncheck -p identical
zenith generate --from woman.png --steps 3 -o again.png --json | grep -oE '"(model|seed|steps|guidance|shift)": [^,]*'
zenith generate "a portrait of a man" --seed 1 --steps 2 --guidance 0 -o plain.png --json | grep -oE '"guidance": [^,]*'
zenith generate "a portrait of a man" --seed 1 --steps 1 --size 64 -o small.png -q
zenith generate "A Portrait of a MAN" --seed 1 --steps 1 --size 64 -o capitals.png -q && zenith compare --json --lpips none small.png capitals.png | jsoncheck -p identical # it learned from small letters
zenith generate "a portrait of a man" --seed 1 --steps 1 --size 64 -o small.png | sed -E 's/[0-9.]+ s$/N s/'
zenith generate "a red fox" --seed 1 --steps 1 -o fox.png | sed -E 's/[0-9.]+ s$/N s/'
printf 'a photo of a Persian cat\na photo of a sports car\na scatter of dogmas\n' | zenith generate --prompts - --seed 1 --steps 1 -o list/ >/dev/null
zenith generate "a photo of a beagle" --seed 1 --steps 1 --size 256 -o large.png --json | jsoncheck -p model
# A prompt of another form than those it was trained on, or a long one, gets a remark too, which JSON has as well.
zenith generate "portrait of a smiling woman" --seed 1 --steps 1 -o form.png >/dev/null
zenith generate "a portrait of an old wizard with a long white beard in a dark forest, oil painting" --seed 1 --steps 1 -o long.png -q --json |
    grep -oE '"remarks": \[[^]]*'
zenith generate "A photo of a german shorthaired, a dog" --seed 1 --steps 1 -o known.png --json | grep -oE '"remarks": \[[^]]*'
makeimage photo.png 300 200
zenith generate "a portrait of a man" --image photo.png --seed 1 --steps 2 -o from.png -m zenith-mini | sed -E 's/[0-9.]+ s$/N s/'
zenith info --json "$ZENITH_MODELS/zenith-mini" | grep -oE '"dtype": "[A-Z0-9]+"'
zenith info "$ZENITH_MODELS/zenith-mini" | grep -o 'Portraits look like photos'
zenith generate --help | tr -s '\n ' ' ' | grep -oE 'bundled zenith-mini, which draws portraits and pets of 128x128|Z-Image-Turbo \(6'
zenith models | grep -o 'zenith-mini *generates'
# Other commands say what it is, and generate says what others are.
for command in "eval --data ." "encode photo.png" "restore photo.png -o r.png"; do
    zenith $command -m zenith-mini
    echo "${command%% *} $?"
done
cp -rs "$ZENITH_MODELS/zenith-mini" mini
zenith encode photo.png -m ./mini
zenith generate "a portrait of a man" -m zenith-r -o no.png
zenith generate "a portrait of a man" -m diffae-faces -o no.png
# Models of the user come first, z-image-turbo before all; a folder without all parts is not taken.
mkdir models
tinymodel models/tiny || exit 1
mkdir models/half && cp -r models/tiny/transformer models/half
export ZENITH_MODELS=$PWD/models:$SOURCE/weights
zenith generate "a fox" --seed 1 --steps 1 --size 32 -o fox.png --json | grep -o '"model": "[^"]*"'
cp -r models/tiny models/z-image-turbo
zenith generate "a fox" --seed 1 --steps 1 --size 32 -o fox.png --json | grep -o '"model": "[^"]*"'
