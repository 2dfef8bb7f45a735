# Images from prompts, with a tiny model of random weights: every option, and what scripts get.
tinymodel model || exit 1
gen() { zenith generate -m model --size 48x32 --steps 2 "$@"; }

# One image; its line names the seed, and the seed gives it again for any number of threads.
gen "a red fox" --seed 7 -o fox.png | sed -E 's/[0-9.]+ s$/N s/'
for n in 1 3; do gen "a red fox" --seed 7 -o again.png --threads $n -q && cmp fox.png again.png; done
gen "a red fox" -o random1.png -q && gen "a red fox" -o random2.png -q && cmp -s random1.png random2.png && echo "the seed is not random"
gen "a red fox" -o named.png | grep -oE 'seed [0-9]+' >seed
gen "a red fox" --seed "$(cut -d' ' -f2 seed)" -o named2.png -q && cmp named.png named2.png
zenith info --json fox.png | jsoncheck -p width height

# Options that must change the image do.
differs() { cmp -s fox.png "$1" && echo "$1 is the same"; }
gen "a blue fox" --seed 7 -o o1.png -q; differs o1.png
gen "a red fox" --seed 8 -o o2.png -q; differs o2.png
zenith generate -m model --size 48x32 --steps 3 "a red fox" --seed 7 -o o3.png -q; differs o3.png
gen "a red fox" --seed 7 --shift 1 -o o4.png -q; differs o4.png
gen "a red fox" --seed 7 --guidance 3 -o o5.png -q; differs o5.png
gen "a red fox" --seed 7 --guidance 3 --negative dog -o o6.png -q; differs o6.png
cmp -s o5.png o6.png && echo "--negative changes nothing"
zenith generate -m model --steps 2 --size 64 "a red fox" --seed 7 -o o7.png -q && zenith info --json o7.png | jsoncheck -p width height

# Several images: image i has seed + i.
gen "a red fox" --seed 5 --count 3 -o many.png -q && ls many*
gen "a red fox" --seed 5 --count 3 -o many/ -q && ls many/
gen "a red fox" --seed 5 --count 3 -o many --format webp --lossless -q && ls many/
cmp many-3.png fox.png
cmp many/0003.png fox.png
printf '\xef\xbb\xbf# foxes\n\n  a red fox  \r\n\na blue fox' >prompts.txt
gen --prompts prompts.txt --seed 7 -o list.png -q && ls list*
cmp list-1.png fox.png
gen "a blue fox" --seed 8 -o blue.png -q && cmp blue.png list-2.png
gen --prompts prompts.txt --seed 7 --count 2 -o twice/ | cut -d, -f1
# At once they are the same images; the last batch is smaller.
gen --prompts prompts.txt --seed 7 --count 2 --batch 3 -o at-once/ --json | grep -oE '"(seed|together)": [0-9]+' | paste -sd' '
for n in 1 2 3 4; do cmp twice/000$n.png at-once/000$n.png; done
gen --prompts prompts.txt --seed 7 --count 2 --batch 4 -o at-once/ | cut -d, -f1
# Those that are made are written even if another cannot be.
mkdir -p lost/0002.png
gen --prompts prompts.txt --seed 7 --count 2 --batch 4 -o lost/ -q 2>&1; echo "status $?"
for n in 1 3 4; do cmp twice/000$n.png lost/000$n.png; done

# From an image: without a size it keeps its own; with one it is scaled; a mask keeps what is black.
makeimage photo.png 48 32
makeimage wide.jpg 90 40
zenith generate -m model "a fox" --image photo.png --seed 1 --steps 4 -o i1.png -q && zenith info --json i1.png | jsoncheck -p width height
zenith generate -m model "a fox" --image photo.png --seed 1 --steps 4 --strength 0.3 -o i2.png -q; cmp -s i1.png i2.png && echo "--strength changes nothing"
gen "a fox" --image wide.jpg --seed 1 -o i3.png 2>&1 | grep -o "wide.jpg: .*"
makeimage odd.png 301 257 && makeimage oddmask.png 301 257 # sides that generators cannot make
zenith generate -m model "a fox" --image odd.png --mask oddmask.png --seed 1 --steps 1 -o i6.png 2>&1 | sed -E 's/[0-9.]+ s$/N s/'
zenith generate -q --from i6.png -o i7.png && cmp i6.png i7.png
zenith generate -m model "a fox" --image photo.png --mask photo.png --seed 1 --steps 4 -o i4.png -q; cmp -s i1.png i4.png && echo "--mask changes nothing"

# Folders are created with those above them; values of short options may follow an equals sign.
gen "a red fox" --seed 7 -o new/deep/ -q && cmp new/deep/0001.png fox.png
gen "a red fox" --seed 7 -o=equals.png -q && cmp equals.png fox.png
gen --seed 7 -q -o dash.png -- "-5 degrees" && zenith info dash.png | grep -c -e '-5 degrees'

# Pipes.
echo "a red fox" | gen - --seed 7 -o piped.png -q && cmp piped.png fox.png
gen "a red fox" --seed 7 -o - 2>/dev/null | cmp - fox.png
gen "a red fox" --seed 7 -o - --format jpg 2>remark >piped.jpg; zenith info --json piped.jpg | jsoncheck -p format
sed -E 's/[0-9.]+ s$/N s/' remark
zenith generate -m model "a fox" --image - --seed 1 --steps 4 -o i5.png -q <photo.png && zenith compare --json i5.png i1.png | jsoncheck -p identical
printf 'a red fox\n' | gen --prompts - --seed 7 -o piped2.png -q && cmp piped2.png fox.png

# Named apart; the folder is not needed then.
zenith generate --transformer model/transformer --text-encoder model/text_encoder --vae model/vae --tokenizer model/tokenizer \
    --size 48x32 --steps 2 "a red fox" --seed 7 -o apart.png -q && zenith compare --json apart.png fox.png | jsoncheck -p identical

zenith generate -m model --vae "$PWD/model/vae" --size 48x32 --steps 2 "a red fox" --seed 7 -o apart2.png -q && zenith compare --json apart2.png fox.png | jsoncheck -p identical

# Scripts.
gen "a red fox" --seed 7 -o j.png --json >json
jsoncheck -p model <json
jsoncheck images <json
gen "a red fox" --seed 7 --count 2 -o j.png --json --memory 8G | grep -oE '"(output|prompt|seed|width|height|steps|guidance|shift|strength|precision|tokens|cached|text_ms|encode_ms|steps_ms|decode_ms)":' | sort | uniq -c | sed 's/^ *//'
gen "a red fox" --seed 7 -p bf16 --guidance 2 --shift 4.5 --image photo.png --strength 0.4 -o j.png --json | grep -oE '"(guidance|shift|strength|precision)": [^,]*'
gen "a red fox" --seed 18446744073709551615 -o j.png --json | grep -oE '"seed": [0-9-]+'

# Features of a prompt that another kind of processor computed are not taken: the last bits may differ.
for mask in fp16,bf16,dotprod,i8mm,avx2,avx512,avx512bf16,amx "" ""; do
    ZENITH_CPU_MASK=$mask gen "a new fox" --seed 7 -o j.png --json | grep -oE '"cached": [a-z]+'
done

# The plan, and the terminal.
gen "a red fox" --seed 7 -o v.png -v 2>&1 >/dev/null | grep -cE '^zenith: prompt [0-9.]+ s, image [0-9.]+ s, steps [0-9.]+ s, decode [0-9.]+ s, file and other [0-9.]+ s$'
gen "a red fox" --seed 7 -o v.png -v 2>&1 >/dev/null | grep -q '[KMG]iB' || echo "-v prints no plan"
gen "a red fox" --seed 7 --show -q | grep -c $'\xe2\x96\x80'

# Previews: in a file, the last one without metadata, and as many as steps in the terminal; none in a pipe.
gen "a red fox" --seed 7 -o p.png --preview=step.png -q && cmp p.png fox.png
zenith info --json step.png | jsoncheck -p width height | paste -sd x
zenith info step.png | grep -c parameters
drawn() { onterminal -o zenith generate -m model --size 48x32 --steps "$1" "a red fox" --seed 7 -o p.png --preview -q | grep -c $'\xe2\x96\x80'; }
one=$(drawn 1) three=$(drawn 3)
echo $((three / one)) previews
gen "a red fox" --seed 7 -o p.png --preview | cat -v | sed -E 's/[0-9.]+ s$/N s/'

# Layers are measured instead of an image, and what is kept in bf16 is remembered.
zenith generate -m model --size 32 --steps 1 --seed 7 "a fox" --calibrate --keep 25% | sed -E 's/[0-9.]+e-[0-9]+/E/' | sort | uniq | wc -l
zenith generate -m model --size 32 --steps 1 --seed 7 "a fox" -p fp8 -o fp8.png -v 2>&1 | grep -o 'fp8: .* file'
zenith generate -m model --size 32 --steps 1 --seed 7 "a fox" -p fp8 -o fp8.png 2>&1 >/dev/null | grep -c 'a CPU has no units for fp8'
zenith generate -m model --size 32 --steps 1 --seed 7 "a fox" -q -p fp8 -o fp8.png
find model -name '*.fp8.json' -exec rm {} +

# A long prompt is cut, and more memory than allowed is refused. Each thread needs some: budgets are for one.
for i in {1..300}; do printf 'fox %s ' $i; done | gen - --seed 7 -o long.png | sed -E 's/[0-9.]+ s$/N s/'
zenith generate -m model --steps 1 --size 512 --threads 1 --memory 12M "a fox" -o tiles.png -q --json | grep -oE '"decoder_tiles": [0-9]+'
makeimage large.png 256 192
zenith generate -m model --steps 2 --threads 1 --memory 3M "a fox" --seed 1 --image large.png -o small.png --json | grep -oE '"(en|de)coder_tiles": [0-9]+' | sed 's/ [2-9]$/ several/'
zenith generate -m model --steps 2 "a fox" --seed 1 --image large.png -o whole.png --json | grep -oE '"(en|de)coder_tiles": [0-9]+'
zenith compare --json small.png whole.png | jsoncheck -p psnr | awk '{ print ($1 > 30 ? "close" : "far") }'
zenith generate -m model --steps 1 --size 512 --memory 1M "a fox" -o x.png
echo "status $?"
printf 'caf\xe9' | gen - -o x.png
echo "status $?"
! ls x.png 2>/dev/null
