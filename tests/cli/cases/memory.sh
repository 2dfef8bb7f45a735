# A memory budget is kept by the whole program (with a little for the program itself), or refused with the least that
# works; the result has the bits of the run without one. Slow plans are reported without -v.
makeimage in.png 900 1600
model="--model random:zenith-restore --threads 2" # every thread has buffers of its own
program=24 # MiB that are neither images nor weights nor activations
same() { cmp -s $1 $2 || echo "$2 differs from $1"; }

zenith restore -q $model in.png -o whole.png || exit 1
for budget in 50 90; do
    peak $((budget + program)) zenith restore -q $model --memory ${budget}M in.png -o banded.png || exit 1
    same whole.png banded.png
done

# What the sentence names works; a little less does not.
zenith restore -q $model --memory 1M in.png -o refused.png 2>refusal && echo "1M is enough"
sed 's/least is [0-9]*/least is N/' refusal
least=$(sed 's/.*least is \([0-9]*\).*/\1/' refusal)
zenith restore -q $model --memory $((least - 1))M in.png -o refused.png 2>/dev/null && echo "less than the least is enough"
test -e refused.png && echo "a refused run wrote something"

# Encoder and decoder share one budget.
makeimage small.png 640 960
peak $((110 + program)) zenith reconstruct -q --model random:zenith-r --threads 2 --memory 110M small.png -o trip.png >/dev/null || exit 1

# Videos: what FFmpeg takes to read and write them counts, and so does the program. One refusal names what is enough for
# both parts of an autoencoder.
clips=$SOURCE/tests/golden/wan/taew2_1.safetensors
mkdir frames
for n in 1 2 3 4 5 6 7 8 9; do makeimage frames/$n.png 320 192 $n; done
zenith encode -q -m $clips --clip frames -o clip.safetensors
if zenith decode -q -m $clips clip.safetensors -o film.mkv 2>none; then
    for how in "restore $model" "reconstruct -m random:zenith-r -t 2" "reconstruct -m $clips -t 2"; do
        zenith $how -q --memory 1M film.mkv -o again.mkv 2>refusal && echo "$how: 1M is enough"
        least=$(sed 's/.*least is \([0-9]*\).*/\1/' refusal)
        peak $((least + 4)) zenith $how -q --memory ${least}M film.mkv -o again.mkv >/dev/null || echo "$how: ${least}M"
    done
    peak $((least + 4)) zenith decode -q -m $clips -t 2 --memory ${least}M clip.safetensors -o again.mkv
else
    grep -q 'not supported in this build' none || cat none
fi

# Narrow strips overlap much.
makeimage wide.png 1200 240
zenith restore -q $model --memory 1M wide.png -o refused.png 2>refusal
least=$(sed 's/.*least is \([0-9]*\).*/\1/' refusal)
zenith restore $model --memory ${least}M wide.png -o narrow.png 2>&1 >/dev/null | grep -o 'times the arithmetic'
exit 0
