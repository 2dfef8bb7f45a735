# The bench: a line for each figure, with --profile a row for each layer whose times add up to the whole.
zenith bench -q --size 96x64 --runs 2 --threads 1 --profile
zenith bench -q --size 96x64 --runs 3 --threads 1 --profile --json >json
jsoncheck -p ms_median ms_min <json | { read -r median; read -r least; awk "BEGIN { exit !($least > 0 && $median >= $least) }"; } || echo "times are wrong"
# The precision is the one that was used, not the one that was asked for.
export ZENITH_CPU_MASK=fp16,bf16,i8mm,amx
zenith bench -q --size 64 --runs 1 --threads 1 --precision f16 | grep '^precision'
zenith bench -q --size 64 --runs 1 --threads 1 --precision f16 --json | jsoncheck -p precision precision_asked precision_share
unset ZENITH_CPU_MASK
# Without --model it takes the one that other commands take.
ZENITH_MODELS=$SOURCE/weights zenith bench --size 64 --runs 1 | grep '^model'
# Of a diffusion autoencoder: one step of the U-Net, or the encoder, at the size of the model.
zenith bench -q --model random:diffae-compact --runs 1 --threads 1 --profile --json >json
jsoncheck -p part width height gflop <json
grep -c '"name": "output_blocks.7.0.out_layers.3"' json
zenith bench -q --model random:diffae-compact --part encode --runs 1 --threads 1 | grep -E '^(part|width) '
zenith bench -q --model random:diffae-compact --size 512
echo "status $?"
zenith bench -q --model random:ddim-compact --part encode
echo "status $?"
# On a terminal a bar shows how far it is, and Ctrl-C ends it.
onterminal -i 'left  decode' zenith bench --size 512 --runs 1000 --threads 1 >seen
echo "status $?"
tr -d '\n' <seen | grep -qE '\[[#.]{24}\] +[0-9]+%  [0-9ms]+, about [0-9ms?]+ left  decode' || echo "no bar"
