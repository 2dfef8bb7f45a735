#!/usr/bin/env bash
# Runs the checks that take too long for every change: an hour of fuzzing per reader, leaks, the sanitizers on every kernel,
# the thread sanitizer on every test, valgrind on the program, the kernels on an emulated RISC-V, the Debian
# packages, and new requests to the API. Prints "N passed, N failed, N skipped" like scripts/test.sh.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
scripts/deps.sh build test nightly deb || exit 1
export FUZZ_SECONDS=${FUZZ_SECONDS:-3600} API_SEED=${API_SEED:-$RANDOM} API_EXAMPLES=${API_EXAMPLES:-200}
exec scripts/test.sh release api leaks asan_kernels tsan_all valgrind riscv deb fuzz
