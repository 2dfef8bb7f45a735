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

# Narrow strips overlap much.
makeimage wide.png 1200 240
zenith restore -q $model --memory 1M wide.png -o refused.png 2>refusal
least=$(sed 's/.*least is \([0-9]*\).*/\1/' refusal)
zenith restore $model --memory ${least}M wide.png -o narrow.png 2>&1 >/dev/null | grep -o 'times the arithmetic'
exit 0
