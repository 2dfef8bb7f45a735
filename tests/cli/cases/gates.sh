# Block gates learn: a penalty shuts more of them, in use too, and the run's folder tells of it.
mkdir pictures
for n in 1 2 3 4 5 6 7 8; do makeimage pictures/$n.png 64 6$n; done
for penalty in 0 0.3; do
    printf '%s\n' 'model: zenith-hier' 'width: 4' 'size: 64' 'batch: 4' 'warmup: 5' 'lr: 1e-2' 'held_out: 30' \
        'loss: {mse: 1, l1: 0, bands: 0}' "gates: {penalty: $penalty, lr: 10}" >$penalty.yaml
    zenith train $penalty.yaml --data pictures -o run$penalty --steps 40 --json -q >$penalty.json || exit 1
    zenith eval --model run$penalty --data pictures --gates -q | sed -n 's/^gate2 .* \([0-9.]*\)%$/\1/p' >$penalty.share
done
jsoncheck run steps loss psnr pruned seconds waited <0.3.json
grep -c '"loss/gates".*"pruned"' run0.3/metrics.jsonl
sed -n '/^gates/,/^held/p' run0.3/recipe.yaml
awk 'NR == 1 { without = $1 } NR == 2 { print ($1 > without + 20 ? "prunes more" : "prunes no more: " without " " $1) }' 0.share 0.3.share
# The same recipe gives the same bits, and another form trains too.
zenith train 0.3.yaml --data pictures -o parts --steps 40 -q >/dev/null
sed 's/^gates.*/gates: {form: soft}/' 0.3.yaml >soft.yaml
zenith train soft.yaml --data pictures -o soft --steps 3 -q | grep -c '^pruned'
cmp parts/model.safetensors run0.3/model.safetensors
# Gates that are not there.
printf '%s\n' 'model: zenith-hier-r' 'gates: {penalty: 1}' >none.yaml
zenith train none.yaml --data pictures -o none
echo "status $?"
