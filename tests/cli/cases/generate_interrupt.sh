# A bar with the time left, and Ctrl-C within a step: nothing is left behind, and images that are finished stay.
tinymodel model || exit 1
mkdir out
gen="zenith generate -m model --seed 7 --threads 1 --steps 1000"
onterminal -i 'left  step' $gen --size 256 "a fox" -o out/fox.png >seen
echo "status $?"
tr -d '\n' <seen >line
grep -oE '\[[#.]{24}\] +[0-9]+%  [0-9ms]+, about [0-9ms]+ left  step [0-9]+ of 1000' line | head -1 | sed -E 's/[0-9][0-9ms]*/N/g; s/[#.]+/BAR/; s/ +/ /g'
sed -E 's/.*left  step [0-9]+ of 1000//' line
echo
ls -A out
for signal in TERM HUP; do
    $gen --size 256 "a fox" -o out/fox.png -q 2>/dev/null &
    sleep 0.7
    kill -$signal $!
    wait $! 2>/dev/null
    echo "status $?"
done
ls -A out
# Of several images, those before the signal are whole.
$gen --size 16 "a fox" --count 1000 -o out/ -q --json >json 2>/dev/null &
pid=$!
until [[ -e out/0001.png ]] || ! kill -0 $pid 2>/dev/null; do sleep 0.1; done
kill -INT $pid
wait $pid 2>/dev/null
for name in out/*; do zenith info --json "$name" | jsoncheck -p width; done | sort -u
jsoncheck images error <json
# Without a terminal there are lines now and then, with the time left once it is known.
ZENITH_LOG_SECONDS=0.01 zenith generate -m model --seed 7 --threads 1 --size 256 --steps 400 "a fox" -o fox.png 2>lines >/dev/null
[[ $(wc -l <lines) -ge 2 ]] || echo "too few lines"
sed -E 's/[0-9][0-9ms]*/N/g' lines | sed '/decode/d' | uniq
