#!/usr/bin/env bash
# Runs every fuzz target for SECONDS with the seeds in tests/fuzz/corpus, JOBS (2) at a time; fails on any crash.
#
#     scripts/fuzz.sh SECONDS [target...]      findings are in build-fuzz/found/TARGET
# KERNELS: a build folder whose compiled kernels are used.
# Prints "result passed|failed 1" after each target for scripts/test.sh, which adds them up.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:?usage: scripts/fuzz.sh SECONDS [target...]}
shift
build=$PWD/build-fuzz log=$PWD/build-fuzz/build.log
mkdir -p "$build"
cmake -S . -B "$build" -G Ninja -DCMAKE_C_COMPILER="${CC:-clang}" -DZENITH_FUZZ=ON \
    -DZENITH_SANITIZE=address,undefined -DZENITH_KERNELS="${KERNELS:-}" -DCMAKE_BUILD_TYPE=Release >"$log" 2>&1 || { cat "$log"; exit 1; }
mapfile -t targets < <(if [ $# -gt 0 ]; then printf '%s\n' "$@"; else cat "$build/tests/fuzz/targets.txt"; fi)
cmake --build "$build" -j "${JOBS:-2}" --target "${targets[@]/#/fuzz-}" >>"$log" 2>&1 || { tail -40 "$log"; exit 1; }

run_one() {
    local name=$1 corpus=$build/corpus/$1 found=$build/found/$1 log=$build/fuzz-$1.log
    local options=(-max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -max_len=16384 -artifact_prefix="$found/")
    mkdir -p "$corpus" "$found"
    [ -f "tests/fuzz/$name.dict" ] && options+=(-dict="tests/fuzz/$name.dict")
    if "$build/tests/fuzz/fuzz-$name" "${options[@]}" "$corpus" "tests/fuzz/corpus/$name" >"$log" 2>&1; then
        echo "$name: $(grep -oE 'Done [0-9]+ runs' "$log"), $(find "$corpus" -type f | wc -l) inputs kept"
        echo "result passed 1"
    else
        echo "$name: FAILED, input under $found"
        echo "result failed 1"
        tail -40 "$log"
        return 1
    fi
}
export -f run_one
export build seconds
printf '%s\n' "${targets[@]}" | xargs -P "${JOBS:-2}" -I{} bash -c 'run_one {}'
