#!/usr/bin/env bash
# Everything that has to hold, stage by stage; `make test` and continuous integration run this.
#
#     scripts/test.sh              all stages
#     scripts/test.sh asan fuzz    only these
#     ZENITH_OFFLINE=1 scripts/test.sh    without the stages that fetch Python packages
#
# A stage writes its log under build/test-logs. A failed stage shows the end of its log, the others still run. The last
# line is always "N passed, N failed, N skipped", counted over all stages.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

logs=build/test-logs
jobs=${JOBS:-$(nproc)}
fuzz_seconds=${FUZZ_SECONDS:-10}
shared=${ZENITH_SHARED:-../shared}
all=(format release demo golden studio api clang asan tsan cross cuda fuzz)

# What tests need is installed below: one that cannot run has failed (tests/skip.h).
export ZENITH_MUST_RUN=1

passed=0 failed=0 skipped=0
mkdir -p "$logs"

# A stage tells what happened in lines of the form "result passed|failed|skipped N"; ctest's own summary counts too.
result() { echo "result $1 $2"; }

# configure_and_build FOLDER [cmake arguments]: everything, or the targets that TARGET names
configure_and_build() {
    local folder=$1 targets
    shift
    read -ra targets <<<"${TARGET:-all}"
    cmake -S . -B "$folder" -G Ninja "$@" && cmake --build "$folder" -j "$jobs" --target "${targets[@]}"
}

# run_ctest FOLDER SECONDS [ctest arguments]: a process that takes more than SECONDS of CPU time is killed, so that a
# busy machine fails no test; the limit in real time is for tests that wait for ever.
run_ctest() {
    local folder=$1 limit=$2
    shift 2
    (ulimit -S -t "$limit" && ulimit -c 0 &&
        ctest --test-dir "$folder" --output-on-failure --no-tests=error --timeout 2400 -j "$jobs" "$@")
}

# The kernels of the release build, which other builds link (-DZENITH_KERNELS) instead of compiling them again.
release_kernels() {
    cmake -S . -B build -G Ninja -DZENITH_TESTS=ON && cmake --build build -j "$jobs" --target zenith_kernels
}

# Versions of the tool lay code out differently; the tree follows the one of Debian 12.
stage_format() {
    clang-format --version
    if ! clang-format --version | grep -q 'version 14[.]'; then
        result skipped 1
        return 0
    fi
    scripts/format.sh --check && result passed 1
}

stage_release() {
    configure_and_build build -DZENITH_TESTS=ON && run_ctest build 600
}

stage_demo() {
    rm -f build/demo.png
    scripts/demo.sh && test -s build/demo.png && result passed 1
}

# Reference data that is kept outside the tree, real weights with it; tests/golden is run by ctest.
stage_golden() {
    if [ ! -d "$shared/golden/taesd" ]; then
        echo "there is no $shared/golden/taesd"
        result skipped 1
        return 0
    fi
    local text status p f s
    TARGET=check-golden configure_and_build build -DZENITH_TESTS=ON || return
    text=$(ZENITH_MODELS="$shared/data/weights" build/check-golden "$shared"/golden/{taesd,wan,zenith,zimage}/*.safetensors "$shared"/golden/diffae/*.safetensors)
    status=$?
    echo "$text"
    read -r p _ f _ s _ <<<"${text##*$'\n'}"
    result passed "$p" && result failed "$f" && result skipped "$s"
    return $status
}

stage_clang() {
    configure_and_build build-clang -DCMAKE_C_COMPILER=clang -DZENITH_TESTS=ON && result passed 1
}

# gcc's search for uninitialised variables has false positives in instrumented code; the other builds do it.
sanitized() {
    local name=$1
    shift
    configure_and_build "build-$name" -DZENITH_TESTS=ON -DCMAKE_BUILD_TYPE=Debug \
        "-DCMAKE_C_FLAGS_DEBUG=-O1 -g -Wno-error=maybe-uninitialized" "$@"
}

stage_asan() {
    release_kernels && sanitized asan -DZENITH_SANITIZE=address,undefined -DZENITH_KERNELS="$PWD/build" || return
    local leaky=1
    # On ARM64 the leak check walks an address space: four seconds for each process, and the program's tests start hundreds.
    [ "$(uname -m)" = x86_64 ] || leaky=0
    export UBSAN_OPTIONS=print_stacktrace=1
    # The kernels are those that the release stage has checked. Ranks run what train.run does, in twice as many processes.
    # Layering, headers and links are checks of the source, which the release stage has run.
    ASAN_OPTIONS=detect_leaks=1 run_ctest build-asan 900 -E '^(cli|kernels|train.(mpi|precision)|layering|headers|docs.links)'
    local status=$?
    ASAN_OPTIONS=detect_leaks=$leaky run_ctest build-asan 900 -R '^cli' && return $status
}

# Every kernel instrumented, and all of its cases.
stage_asan_kernels() {
    TARGET="kernel-checks check-ops check-fp8 engine-tests" sanitized asan-kernels \
        -DZENITH_SANITIZE=address,undefined -DZENITH_SANITIZE_KERNELS=ON &&
        ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 run_ctest build-asan-kernels 7200 -R '^(kernels|ops|engine)'
}

# thread_checker NAME SECONDS [ctest arguments]. Address randomisation is off because the sanitizer's memory map cannot
# cope with every Linux kernel's.
thread_checker() {
    export TSAN_OPTIONS=halt_on_error=1
    (ulimit -S -t "$2" && ulimit -c 0 && setarch "$(uname -m)" -R ctest --test-dir "build-$1" --output-on-failure \
        --no-tests=error --timeout $(($2 * 4)) "${@:3}")
}
stage_tsan() {
    release_kernels && TARGET=thread-tests sanitized tsan -DZENITH_SANITIZE=thread -DZENITH_KERNELS="$PWD/build" &&
        thread_checker tsan 900 -L threads -j "$jobs"
}
stage_tsan_all() {
    sanitized tsan-all -DZENITH_SANITIZE=thread -DZENITH_SANITIZE_KERNELS=ON && thread_checker tsan-all 7200
}

# Memory that is used before it is written, which the sanitizers do not see.
stage_valgrind() {
    valgrind --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite build/cli/zenith reconstruct \
        assets/demo.png --model random:taesd --threads 2 -o build/valgrind.png && result passed 1
}

# The Debian packages, unpacked into a folder: the program finds its weights there and runs.
stage_deb() {
    scripts/deb.sh || return
    local root=$PWD/build/deb/root package
    for package in build/deb/*.deb; do dpkg-deb -x "$package" "$root" || return; done
    (cd / && HOME=$root "$root/usr/bin/zenith" reconstruct "$OLDPWD/assets/demo.png" -m zenith-r) && result passed 1
}

# cross_checks CPU: the checks of kernels and ops for another kind of machine, built by a cross compiler and run by an
# emulator.
cross_checks() {
    local folder=build-$1
    cmake -S . -B "$folder" -G Ninja -DCMAKE_TOOLCHAIN_FILE="cmake/$1-linux-gnu.cmake" -DZENITH_IMAGES=OFF \
        -DZENITH_TESTS=ON &&
        cmake --build "$folder" -j "$jobs" --target kernel-checks check-ops check-fp8 &&
        run_ctest "$folder" 1800 -R '^(kernels|ops)' -E amx_emulated
}

# python_with PACKAGE...: builds the program, the tool that makes models for its tests, and an environment of Python with
# these packages in build/venv. They are fetched; where nothing can be, ZENITH_OFFLINE=1 skips the stages that need them.
python_with() {
    TARGET="zenith tinymodel" configure_and_build build -DZENITH_TESTS=ON || return
    [ -x build/venv/bin/python3 ] || python3 -m venv build/venv || return
    build/venv/bin/python3 -m pip install -q "$@"
}

# The page of zenith serve in a real browser.
stage_studio() {
    local log=$logs/studio-cases.log
    [ -z "${ZENITH_OFFLINE-}" ] || { echo "offline: the studio was not tried in a browser" && result skipped 1 && return; }
    python_with playwright pillow && build/venv/bin/python3 tests/studio/studio.py build/cli/zenith | tee "$log" &&
        result passed "$(grep -c ': passed in' "$log")"
}

# The API of zenith serve against its own description, by schemathesis: a Python package, as above.
stage_api() {
    [ -z "${ZENITH_OFFLINE-}" ] || { echo "offline: the API was not compared with its description" && result skipped 1 && return; }
    python_with schemathesis && tests/server/conforms.sh build/cli/zenith build/venv/bin/schemathesis && result passed 1
}

# The kernels of the other of the two instruction sets: the release stage ran those of this machine.
stage_cross() {
    case $(uname -m) in
    x86_64) cross_checks aarch64 ;;
    *) cross_checks x86_64 ;;
    esac
}

# A machine for which there is nothing but the scalar kernels and those on the compiler's own vectors.
stage_riscv() { cross_checks riscv64; }

# The kernels of a GPU on the CPU: compiled as C++, every thread of theirs a context of its own.
stage_cuda() {
    if ! command -v c++ >/dev/null; then
        echo "there is no C++ compiler"
        result skipped 1
        return 0
    fi
    release_kernels &&
        cmake -S . -B build-emulated -G Ninja -DZENITH_CUDA=EMULATED -DZENITH_TESTS=ON -DZENITH_KERNELS="$PWD/build" &&
        cmake --build build-emulated -j "$jobs" --target check-cuda check-device check-device-clips check-device-ops \
            check-device-train check-generate-device check-fp8 &&
        run_ctest build-emulated 900 -R '^kernels.(cuda|device|device_clips|device_ops|device_train|generate_device|fp8)$'
}

stage_fuzz() { release_kernels && KERNELS=$PWD/build scripts/fuzz.sh "$fuzz_seconds"; }

# Adds up a log; prints "passed failed skipped".
count() {
    awk '
        /^result passed /  { passed += $3 }
        /^result failed /  { failed += $3 }
        /^result skipped / { skipped += $3 }
        /\*\*\*Skipped/    { passed -= 1; skipped += 1 }
        /tests passed, [0-9]+ tests failed out of [0-9]+/ {
            match($0, /[0-9]+ tests failed out of [0-9]+/)
            split(substr($0, RSTART, RLENGTH), word, " ")
            passed += word[6] - word[1]
            failed += word[1]
        }
        END { print passed + 0, failed + 0, skipped + 0 }' "$1"
}

# Runs one stage and prints its line.
run_stage() {
    local name=$1 log=$logs/$1.log begin=$SECONDS ok=1 p f s
    "stage_$name" >"$log" 2>&1 || ok=0
    read -r p f s < <(count "$log")
    if [ $((p + f + s)) = 0 ]; then
        [ $ok = 0 ] || echo "the stage ran no test" >>"$log"
        f=1
    elif [ $ok = 0 ] && [ "$f" = 0 ]; then
        f=1
    elif [ $((p + f)) = 0 ] && ! grep -q '^result skipped' "$log"; then
        echo "every test of the stage was skipped" >>"$log" # a stage that may be left out says so by itself
        f=1
    fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    printf '%-8s %4d s  %4d passed %3d failed %3d skipped\n' "$name" $((SECONDS - begin)) "$p" "$f" "$s"
    [ "$f" = 0 ] && return
    tail -n 40 "$log" | sed 's/^/    | /'
    echo "stage $name FAILED; its whole log is $log"
    return 1
}

scripts/deps.sh build test || exit 1
[ $# -gt 0 ] || set -- "${all[@]}"
for name in "$@"; do
    declare -F "stage_$name" >/dev/null || { echo "scripts/test.sh: no stage '$name'; there are: ${all[*]}" >&2 && exit 2; }
done
begin=$SECONDS
for name in "$@"; do
    run_stage "$name"
done
echo "$((SECONDS - begin)) s in all"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
