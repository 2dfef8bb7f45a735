# Prompt and settings are stored in the image; info prints them, and --from repeats them: the same bits.
tinymodel model || exit 1
makeimage photo.png 48 32
gen() { zenith generate -q -m model --size 48x32 --steps 2 --seed 7 "$@" || echo "failed: $*"; }
parameters() { zenith info "$1" | sed -n '/^parameters/,$p' | sed "s#zenith $(zenith --version | cut -d' ' -f2)#zenith V#"; }
again() { zenith generate -q --from "$1" -o "again.${1##*.}" "${@:2}" && cmp "$1" "again.${1##*.}"; }

# Every format.
for name in fox.png fox.jpg fox.webp; do
    gen "a red fox" -o $name
    zenith info --json $name | jsoncheck -p format
    parameters $name
    again $name
done
again fox.png --threads 3
# Every script, and prompts that look like something else.
gen "雪の中の狐 🦊 café" -o wide.png
parameters wide.png
again wide.png
gen "雪の中の狐 🦊 café" -o wide.jpg && again wide.jpg
gen $'one\ntwo\n\n three ' -o lines.png && parameters lines.png && again lines.png
gen $'one\nNegative prompt: two\nSteps: 3, Seed: 4\n' -o odd.png && parameters odd.png && again odd.png
gen "" -o nothing.png 2>/dev/null && parameters nothing.png && again nothing.png
# Every setting.
gen 'a "fox", red: 1' --guidance 0.1 --negative $'a dog,\n"big"' --shift 2.5 -o all.png && parameters all.png && again all.png
zenith generate -q -m model "a fox" --image photo.png --mask photo.png --strength 0.55 --steps 3 --seed 9 -o image.png && parameters image.png && again image.png
gen "a red fox" -p bf16 -o bf16.png && parameters bf16.png && again bf16.png
zenith generate -q --transformer model/transformer --text-encoder model/text_encoder --vae model/vae --tokenizer model/tokenizer \
    --size 48x32 --steps 2 --seed 7 "a fox" -o apart.png && parameters apart.png && again apart.png
cp -r model "$HOME/elsewhere"
gen "a fox" -m "$HOME/elsewhere" -o home.png && parameters home.png && again home.png
# Several images, each repeated alone.
gen "a red fox" --count 3 -o many.png && again many-3.png
# Processors need more or less memory for a whole image: as much as is too little here.
for little in 4M 3M; do zenith generate -q -m model "a fox" --size 256 --steps 1 --threads 1 --memory $little -o x.png --json | grep -qw '"decoder_tiles": 1' || break; done
# Tiles change the pixels a little: they are stored, and used again whatever the memory; less memory is reported.
zenith generate -q -m model "a fox" --size 256 --steps 1 --seed 7 --threads 1 --memory $little -o tiles.png && parameters tiles.png | sed 's/tile: [0-9]*/tile: N/g' && again tiles.png
zenith generate -q -m model "a fox" --size 256 --steps 1 --seed 7 --tile 128 -o tile.png && parameters tile.png && again tile.png
makeimage large.png 256 192
zenith generate -q -m model "a fox" --image large.png --steps 2 --seed 7 --threads 1 --memory 3M -o both.png && parameters both.png | sed 's/tile: [0-9]*/tile: N/g' && again both.png
zenith generate -q -m model "a fox" --size 256 --steps 1 --seed 7 -o whole.png && again whole.png
zenith generate --from whole.png --threads 1 --memory $little -o less.png 2>&1 | sed -E 's/[0-9.]+ s$/N s/; s/[0-9]+ tiles/N tiles/'
# Paths are relative to where the program ran, or to the image; what is nowhere is named.
mkdir there
cp photo.png there/inside.png
cp -r model there/own
(cd there && zenith generate -q -m own "a fox" --image inside.png --steps 3 --seed 9 -o image.png)
zenith generate -q --from there/image.png -o from_there.png && zenith compare --json from_there.png there/image.png | jsoncheck -p identical
rm there/inside.png
zenith generate --from there/image.png -o x.png
zenith generate -q --from there/image.png --image photo.png -o given.png && zenith compare --json given.png there/image.png | jsoncheck -p identical
zenith generate -q -m model "a fox" --image - --steps 3 --seed 9 -o piped.png <photo.png
zenith generate --from piped.png -o x.png
# Options override what is stored.
zenith generate -q --from all.png --guidance 0 --negative "" --shift 3 "a red fox" -o over.png && cmp over.png <(gen "a red fox" --shift 3 -o -)
zenith generate -q --from fox.png --seed 8 -o other.png && cmp -s other.png fox.png && echo "--seed changes nothing"
zenith generate -q --from fox.png --size 32 -o small.png && zenith info --json small.png | jsoncheck -p width height
# Nothing is stored with --strip; the pixels are the same.
gen "a red fox" -o bare.png --strip && parameters bare.png
zenith compare --json bare.png fox.png | jsoncheck -p identical
zenith generate --from bare.png -o x.png
# It stays with a restored image, and is not taken for a picture's own description of anything else.
zenith restore -q --model random:zenith-restore fox.png -o restored.png && parameters restored.png
zenith restore -q --model random:zenith-restore fox.png -o restored.jpg && parameters restored.jpg
zenith restore -q --model random:zenith-restore fox.png -o restored.png --strip && parameters restored.png
# Files of other programs: unknown settings are skipped, and the sampler is reported.
chunk() { # text: a PNG with it in a chunk "parameters"
    local data="parameters\0$1" size crc
    size=$(printf "$data" | wc -c)
    crc=$(printf "tEXt$data" | gzip -c | tail -c 8 | head -c 4 | od -An -tx1 | awk '{ print "\\x" $4 "\\x" $3 "\\x" $2 "\\x" $1 }')
    head -c 33 bare.png
    printf "$(printf '\\x%02x\\x%02x\\x%02x\\x%02x' $((size >> 24)) $((size >> 16 & 255)) $((size >> 8 & 255)) $((size & 255)))"
    printf "tEXt$data"
    printf "$crc"
    tail -c +34 bare.png
}
chunk 'a red fox\nSteps: 2, Sampler: DPM++ 2M, Schedule type: Karras, CFG scale: 1.0, Seed: 7, Size: 48x32, Model hash: 1a2b, Model: model, Lora hashes: "a: 1, b: 2", Version: v1.10' >other.png
zenith generate --from other.png -o x.png | sed -E 's/[0-9.]+ s$/N s/'
zenith compare --json x.png fox.png | jsoncheck -p identical
chunk 'a \033[31mred\a fox\nSteps: 2' >hostile.png
parameters hostile.png # control characters do not reach the terminal
