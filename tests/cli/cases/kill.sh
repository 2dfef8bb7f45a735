# A training run killed with SIGKILL at random moments, and once stopped by a full disk, ends with the same bits as one
# that was left alone. ZENITH_KILLS says how often (8).
kills=${ZENITH_KILLS:-8}
mkdir pictures
for n in 1 2 3 4 5 6 7 8; do makeimage pictures/$n.png 40 4$n; done
cat >recipe.yaml <<Y
model: zenith-hier-r
batch: 2
size: 32
steps: $((40 + 20 * kills))
warmup: 1
held_out: 30
eval_every: 25
checkpoint_every: 2
loss:
  l1: 1
  bands: 0
Y
# Starts the run or goes on with it, as a user would; takes the place of its shell.
go_on() {
    if [[ -e run/recipe.yaml ]]; then set -- --resume "$@"; else set -- recipe.yaml "$@"; fi
    exec zenith train "$@" -q --data pictures -o run >out 2>err
}
kill_after() {
    sleep "$2"
    { kill -KILL $1; wait $1; } 2>/dev/null # together, or the shell may tell of the end between them
}
zenith train recipe.yaml -q --data pictures -o whole >/dev/null || exit 1

killed=0
for ((i = 0; i < kills; i++)); do
    go_on --threads $((1 + i % 2)) &
    kill_after $! 0.$((RANDOM % 4))$((RANDOM % 10))
    status=$?
    [[ $status == 137 ]] && killed=$((killed + 1))
    [[ $status == 137 || $status == 0 ]] || { echo "run $i ended with $status:"; cat err; }
done
[[ $killed -gt 0 ]] || echo "no run was killed"

# A full disk: one sentence, and the last good checkpoint stays as it was.
until [[ -e run/checkpoint.safetensors ]]; do
    go_on &
    kill_after $! 0.5
done
cp run/checkpoint.safetensors good.safetensors
(
    ulimit -f 1000 # KiB: less than a checkpoint
    (go_on)
    status=$?
    [[ $status == 0 ]] && cmp -s run/checkpoint.safetensors whole/checkpoint.safetensors && exit 0 # it was done already
    [[ $status == 1 && $(wc -l <err) == 1 ]] || echo "full disk: status $status"
    grep -q 'zenith: cannot write run/checkpoint.safetensors: File too large' err || cat err
)
cmp run/checkpoint.safetensors good.safetensors

(go_on) || cat err
for file in checkpoint.safetensors model.safetensors recipe.yaml; do cmp run/$file whole/$file; done
for run in run whole; do sed 's/"images_per_second.*"waited": [0-9.]*//' $run/metrics.jsonl >$run.metrics; done
cmp run.metrics whole.metrics
diff <(cd run && find . | sort) <(cd whole && find . | sort)
echo compared
