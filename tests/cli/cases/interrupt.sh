# Long work on a terminal: a bar appears and is erased. Ctrl-C then stops it, and nothing is left behind.
makeimage big.png 2400 1800
mkdir out
onterminal -i 'left  encode' zenith reconstruct --model random:taesd --threads 1 big.png -o out/big.png >seen
echo "status $?"
ls -A out
tr -d '\n' <seen >line
grep -oE '\^M\^\[\[K\[[#.]{24}\] +[0-9]+%  [0-9ms]+, about [0-9ms]+ left  encode' line | head -1 |
    sed -E 's/[0-9][0-9ms]*/N/g; s/[#.]+/BAR/; s/ +/ /g'
# The bar is erased before anything else is said, and nothing follows.
sed -E 's/.*left  encode//' line
echo
# A signal from outside ends it the same way.
for signal in TERM HUP; do
    zenith encode -q --model random:taesd --threads 1 big.png -o out/big.safetensors 2>/dev/null &
    sleep 0.5
    kill -$signal $!
    wait $! 2>/dev/null
    echo "status $?"
done
ls -A out
# No bar when it must be quiet, or when stderr is no terminal.
makeimage small.png 24 16
onterminal zenith reconstruct -q --json --model random:taesd small.png -o out/small.png | jsoncheck psnr
