# A training run without a terminal prints a line every few seconds, at once, with step, loss, speed and time left.
mkdir pictures
for n in 1 2 3 4; do makeimage pictures/$n.png 40 4$n; done
printf 'model: taesd\nwidth: 8\nbatch: 2\nsize: 16\nsteps: 100000\nwarmup: 1\nheld_out: 0\nloss: {bands: 0}\n' >long.yaml
export ZENITH_LOG_SECONDS=0.01
: >log # the shell of the run may begin after grep
zenith train long.yaml --data pictures -o run >log 2>errors &
pid=$!
until grep -q '^step ' log || ! kill -0 $pid 2>/dev/null; do # the line is there while the run goes on
    sleep 0.1
done
kill -0 $pid && kill $pid
wait $pid
grep -m1 '^step ' log | sed -E 's/[0-9]+\/100000/N\/100000/; s/loss [0-9.e+-]+/loss X/; s/[0-9.]+ images/X images/; s/[0-9hms]+ left/T left/'
# --json keeps standard output for its object; the lines go to standard error.
sed -i 's/100000/20/' long.yaml
zenith train long.yaml --data pictures -o second --json 2>errors | jsoncheck steps
grep -c '^zenith: step .* images/s, about .* left$' errors | sed 's/^[1-9][0-9]*$/some/'
# On a terminal there is the bar, with its unit.
sed -i 's/20/100000/' long.yaml
onterminal -i ', loss' zenith train long.yaml --data pictures -o third >seen
grep -oE ', [0-9.]+ img/s' seen | head -1 | sed -E 's/[0-9.]+/X/'
ZENITH_LOG_SECONDS=0 zenith train long.yaml --steps 20 --data pictures -o fourth | grep -c '^step '
zenith train long.yaml --steps 20 --data pictures -o fifth -q | grep -c '^step '
# So do other commands that take long.
export ZENITH_LOG_SECONDS=0.000001
zenith eval -m random:taesd --data pictures --lpips none 2>&1 | grep -m1 -oE '^zenith: eval: [0-9]+%' | sed -E 's/[0-9]+%/N%/'
true # grep exits with 1 where it counts 0
