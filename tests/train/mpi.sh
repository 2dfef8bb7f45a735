#!/bin/sh
# Training over MPI ranks: test_ranks.c and test_rank_runs.c alone and on 2 and 3 ranks, then the program: one sentence for an
# error, nothing left hanging when a rank is killed, and a signal to mpirun saves.
#
#     mpi.sh ZENITH TEST..
set -eu
zenith=$1
shift
. "$(dirname "$0")/../skip.sh"
command -v mpirun >/dev/null || skip "there is no mpirun on this machine"
# Open MPI: root may run it, ranks may outnumber CPUs, and they need no CPU of their own. Its own leaks are not ours.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() {
    echo "FAILED: $*"
    exit 1
}

echo "MPI's library is opened by ranks alone, and missed by name"
! ldd "$zenith" | grep -E 'libmpi|hwloc|libevent' || fail "the program is linked with MPI"
LD_DEBUG=libs "$zenith" eval --help 2>&1 | grep -q 'libmpi' && fail "a program by itself opens MPI"
mkdir "$folder/none"
for version in 12 20 40 41 42 50; do : >"$folder/none/libmpi.so.$version"; done
OMPI_COMM_WORLD_SIZE=2 LD_LIBRARY_PATH="$folder/none" "$zenith" eval --model random:taesd --data . >"$folder/log" 2>&1 &&
    fail "ranks without MPI"
grep -qE 'one of 2 processes, (which MPI cannot join: .*libmpi|but this build has no MPI)' "$folder/log" ||
    { cat "$folder/log" && fail "the missing library is not named"; }

for test; do
    "$test"
    for n in 2 3; do
        status=0
        timeout 900 mpirun -np $n "$test" >"$folder/log" 2>&1 || status=$?
        if grep -q '^skipped:' "$folder/log"; then
            skip "$(sed -n 's/^skipped: //p' "$folder/log" | head -1)"
        fi
        [ $status = 0 ] || { cat "$folder/log" && fail "$test on $n ranks"; }
    done
done

mkdir "$folder/pictures"
for i in 1 2 3 4 5 6 7 8 9; do
    cp "$(dirname "$0")/../../assets/demo.png" "$folder/pictures/$i.png"
done
printf '%s\n' 'model: zenith-hier-r' 'size: 32' 'batch: 4' 'accumulate: 2' 'held_out: 20' 'checkpoint_every: 5' \
    'schedule: constant' 'warmup: 0' >"$folder/recipe.yaml"

# start NAME: two ranks that would train for hours; $job is the parent of mpirun
start() {
    timeout 900 mpirun -np 2 "$zenith" train "$folder/recipe.yaml" --data "$folder/pictures" -o "$folder/$1" \
        --steps 1000000 >"$folder/$1.log" 2>&1 &
    job=$!
    tries=0
    while [ ! -e "$folder/$1/checkpoint.safetensors" ]; do
        tries=$((tries + 1))
        [ $tries -lt 2400 ] && kill -0 $job || { cat "$folder/$1.log" && fail "no checkpoint in $1"; }
        sleep 0.1
    done
}
children() { cat "/proc/$1/task/$1/children"; }
finish() { # the job ends, and not well
    status=0
    wait $job || status=$?
    [ $status != 0 ] || fail "$1: mpirun says all is well"
    [ $status != 124 ] || fail "$1: hangs"
}

echo "one rank killed"
start killed
# shellcheck disable=SC2046  # a list of processes
set -- $(children $(children $job))
[ $# = 2 ] || fail "$# ranks under mpirun"
kill -KILL "$2"
finish killed

echo "a signal to mpirun"
# mpirun ends ranks after a second, and kills them a second later: not enough on a busy machine.
export OMPI_MCA_odls_base_sigkill_timeout=8
start stopped
# shellcheck disable=SC2046
kill -INT $(children $job)
finish stopped
unset OMPI_MCA_odls_base_sigkill_timeout
[ "$(grep -c 'stopped after step' "$folder/stopped.log")" = 1 ] || { cat "$folder/stopped.log" && fail "not said once"; }
grep -q 'continue with: mpirun -np 2 zenith train --resume' "$folder/stopped.log" || { cat "$folder/stopped.log" && fail "no word of mpirun"; }
step=$(sed -n 's/.*stopped after step \([0-9]*\);.*/\1/p' "$folder/stopped.log")

echo "both go on, by one process"
for run in killed stopped; do
    "$zenith" train --resume --data "$folder/pictures" -o "$folder/$run" --steps $((step + 40)) --json \
        >"$folder/$run.json" || fail "$run does not go on"
done
cmp "$folder/killed/model.safetensors" "$folder/stopped/model.safetensors" || fail "the runs differ"

echo "one sentence"
timeout 900 mpirun -np 2 "$zenith" train "$folder/recipe.yaml" --data "$folder/nowhere" -o "$folder/x" \
    >"$folder/x.log" 2>&1 && fail "training on nothing works"
[ "$(grep -c '^zenith: .*nowhere' "$folder/x.log")" = 1 ] || { cat "$folder/x.log" && fail "not said once"; }

echo "data sets and scores are shared too"
echo "no picture" >"$folder/pictures/5.png"
learn() { # NAME RECIPE COMMAND..
    name=$1 recipe=$2 && shift 2
    "$@" train "$folder/$recipe.yaml" --data "$folder/pictures" -o "$folder/$name" --steps 6 --threads 1 >"$folder/$name.log" 2>&1 ||
        { cat "$folder/$name.log" && fail "a broken picture ends a run"; }
    [ "$(grep -c '5.png' "$folder/$name.log")" = 1 ] || { cat "$folder/$name.log" && fail "the broken picture is not named once"; }
    grep -q '^skipped *1$' "$folder/$name.log" || { cat "$folder/$name.log" && fail "the broken picture is not counted"; }
}
learn learned1 recipe "$zenith"
learn learned2 recipe timeout 900 mpirun -np 2 "$zenith"
cmp "$folder/learned1/model.safetensors" "$folder/learned2/model.safetensors" || fail "ranks leave out other pictures"

echo "gates are those of the whole batch"
printf '%s\n' 'model: zenith-hier' 'size: 64' 'batch: 4' 'accumulate: 2' 'gates: {form: soft, penalty: 0.1}' >"$folder/gates.yaml"
learn gates1 gates "$zenith"
learn gates2 gates timeout 900 mpirun -np 2 "$zenith"
cmp "$folder/gates1/model.safetensors" "$folder/gates2/model.safetensors" || fail "ranks prune otherwise"

echo "so are pictures to encode"
printf '%s\n' 'model: diffae-celeba64' 'task: diffuse' 'width: 32' 'latent: 16' 'size: 64' 'batch: 1' 'ema: 0' >"$folder/auto.yaml"
printf '%s\n' 'model: diffae-celeba64' 'task: imagine' "from: $folder/auto" 'batch: 4' 'accumulate: 2' >"$folder/latent.yaml"
"$zenith" train "$folder/auto.yaml" --data "$folder/pictures" -o "$folder/auto" --steps 1 >"$folder/auto.log" 2>&1 ||
    { cat "$folder/auto.log" && fail "no autoencoder"; }
learn latent1 latent "$zenith"
learn latent2 latent timeout 900 mpirun -np 2 "$zenith"
cmp "$folder/latent1/model.safetensors" "$folder/latent2/model.safetensors" || fail "ranks make another latent net"

build() { "$@" dataset build "$folder/pictures" -o "$folder/set.lmdb" --size 64 --crops 2 --threads 1 >"$folder/set.log" 2>&1; }
if ! build "$zenith" && grep -q 'has no LMDB' "$folder/set.log"; then
    mkdir "$folder/set.lmdb" && cp "$(dirname "$0")"/../broken/images/good* "$folder/set.lmdb"
else
    mv "$folder/set.lmdb" "$folder/one.lmdb"
    build timeout 900 mpirun -np 3 "$zenith" && fail "a broken picture went by unnoticed"
    [ "$(grep -c '5.png' "$folder/set.log")" = 1 ] || { cat "$folder/set.log" && fail "the broken picture is not named once"; }
    cmp "$folder/one.lmdb" "$folder/set.lmdb" || fail "data sets differ"
fi
score() { "$@" eval --model random:zenith-hier-r --data "$folder/set.lmdb" -o "$folder/scores.csv" --threads 1 --quiet >/dev/null; }
score "$zenith" && cut -d, -f1-3,5- "$folder/scores.csv" >"$folder/one.csv"
score timeout 900 mpirun -np 3 "$zenith" && cut -d, -f1-3,5- "$folder/scores.csv" >"$folder/three.csv"
[ "$(wc -l <"$folder/one.csv")" -gt 3 ] && cmp "$folder/one.csv" "$folder/three.csv" || fail "scores differ"

echo "ranks of one machine divide its memory"
budget() { # what half of the free memory is, to a process of COMMAND..
    "$@" encode -v --model random:taesd "$folder/pictures/1.png" -o "$folder/z.safetensors" 2>&1 |
        sed -n 's/.*budget \([0-9]*\).*/\1/p' | head -1
}
alone=$(budget "$zenith") shared=$(budget timeout 900 mpirun -np 4 "$zenith")
[ -n "$shared" ] && [ "$shared" -lt $((alone / 2)) ] || fail "$alone MiB alone, $shared MiB beside three others"
