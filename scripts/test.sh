#!/usr/bin/env bash
# Everything that has to hold, stage by stage; `make test` and continuous integration run this.
#
#     scripts/test.sh              all stages
#     scripts/test.sh asan fuzz    only these
#     ZENITH_OFFLINE=1 scripts/test.sh    without the stages that fetch Python packages
#
# A stage writes its log under build/test-logs. A failed stage shows the end of its log, the others still run. The last
# line is always "N passed, N failed, N skipped", counted over all stages. Stages that are named run one after the other;
# without names, two lanes of them run at a time after the first ones, because many wait: for a browser, for a linker, for
# the last of their tests.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

logs=build/test-logs
jobs=${JOBS:-$(nproc)}
fuzz_seconds=${FUZZ_SECONDS:-5}
shared=${ZENITH_SHARED:-../shared}
first=(format release)
lanes=("asan tsan cross" "demo golden studio api clang cuda fuzz")

# What tests need is installed below: one that cannot run has failed (tests/skip.h).
export ZENITH_MUST_RUN=1

mkdir -p "$logs"

# A stage tells what happened in lines of the form "result passed|failed|skipped N"; ctest's own summary counts too.
result() { echo "result $1 $2"; }

# configure_and_build FOLDER [cmake arguments]: everything, or the targets that TARGET names. Stages of both lanes build
# in the folder build: they wait for each other.
configure_and_build() {
    local folder=$1 targets
    shift
    read -ra targets <<<"${TARGET:-all}"
    (flock 9 && cmake -S . -B "$folder" -G Ninja "$@" && cmake --build "$folder" -j "$jobs" --target "${targets[@]}") \
        9>"$logs/$folder.lock"
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
release_kernels() { TARGET=zenith_kernels configure_and_build build -DZENITH_TESTS=ON; }

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

# Another compiler's warnings. Nothing of this build is run, so only the kernels, whose loops a pragma may ask to be
# unrolled in vain, are optimised.
stage_clang() {
    configure_and_build build-clang -DCMAKE_C_COMPILER=clang "-DCMAKE_C_FLAGS_RELEASE=-O0 -DNDEBUG" -DZENITH_TESTS=ON &&
        result passed 1
}

# gcc's search for uninitialised variables has false positives in instrumented code; the other builds do it.
sanitized() {
    local name=$1
    shift
    configure_and_build "build-$name" -DZENITH_TESTS=ON -DCMAKE_BUILD_TYPE=Debug \
        "-DCMAKE_C_FLAGS_DEBUG=-O1 -g -Wno-error=maybe-uninitialized" "$@"
}

# asan_tests LEAKS: 1 to look for leaks too. The kernels are those that the release stage has checked. Ranks run what
# train.run does, in twice as many processes. Layering, headers, documents and Python's declarations are checks of the
# source, which the release stage has run.
asan_tests() {
    release_kernels && sanitized asan -DZENITH_SANITIZE=address,undefined -DZENITH_KERNELS="$PWD/build" &&
        ASAN_OPTIONS=detect_leaks=$1 UBSAN_OPTIONS=print_stacktrace=1 run_ctest build-asan 900 \
            -E '^(kernels|train.(mpi|precision)|layering|headers|docs|python)'
}
# On ARM64 the leak check walks an address space: four seconds for each of hundreds of processes, so it is nightly there.
stage_asan() {
    case $(uname -m) in
    x86_64) asan_tests 1 ;;
    *) asan_tests 0 ;;
    esac
}
stage_leaks() { asan_tests 1; }

# Every kernel instrumented, and all of its cases.
stage_asan_kernels() {
    TARGET="kernel-checks check-ops check-fp8 engine-tests" sanitized asan-kernels \
        -DZENITH_SANITIZE=address,undefined -DZENITH_SANITIZE_KERNELS=ON &&
        ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 run_ctest build-asan-kernels 7200 -R '^(kernels|ops|engine)'
}

# thread_checker NAME SECONDS [ctest arguments]. Address randomisation is off because the sanitizer's memory map cannot
# cope with every Linux kernel's. Libraries that are not instrumented, such as libx264, synchronise unseen.
thread_checker() {
    export TSAN_OPTIONS=halt_on_error=1:ignore_noninstrumented_modules=1
    (ulimit -S -t "$2" && ulimit -c 0 && setarch "$(uname -m)" -R ctest --test-dir "build-$1" --output-on-failure \
        --no-tests=error --timeout $(($2 * 4)) "${@:3}")
}
stage_tsan() {
    release_kernels && TARGET=thread-tests sanitized tsan -DZENITH_SANITIZE=thread -DZENITH_KERNELS="$PWD/build" &&
        thread_checker tsan 900 -L threads -j "$jobs"
}
stage_tsan_all() {
    sanitized tsan-all -DZENITH_SANITIZE=thread -DZENITH_SANITIZE_KERNELS=ON && thread_checker tsan-all 7200 -j "$jobs"
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
    TARGET="kernel-checks check-ops check-fp8" configure_and_build "build-$1" \
        -DCMAKE_TOOLCHAIN_FILE="cmake/$1-linux-gnu.cmake" -DZENITH_IMAGES=OFF -DZENITH_TESTS=ON &&
        run_ctest "build-$1" 1800 -R '^(kernels|ops)' -E amx_emulated
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
        TARGET="check-cuda check-device check-device-clips check-device-ops check-device-train check-generate-device check-fp8" \
            configure_and_build build-emulated -DZENITH_CUDA=EMULATED -DZENITH_TESTS=ON -DZENITH_KERNELS="$PWD/build" &&
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

# Runs one stage, prints its line, and leaves its counts in a file.
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
    echo "$p $f $s" >"$logs/$name.counts"
    printf '%-8s %4d s  %4d passed %3d failed %3d skipped\n' "$name" $((SECONDS - begin)) "$p" "$f" "$s"
    [ "$f" = 0 ] && return
    tail -n 40 "$log" | sed 's/^/    | /'
    echo "stage $name FAILED; its whole log is $log"
    return 1
}

run_stages() {
    local name
    for name in "$@"; do
        run_stage "$name"
    done
}

scripts/deps.sh build test || exit 1
read -ra beside <<<"${lanes[*]}"
all=("${first[@]}" "${beside[@]}")
for name in "$@"; do
    declare -F "stage_$name" >/dev/null || { echo "scripts/test.sh: no stage '$name'; there are: ${all[*]}" >&2 && exit 2; }
done
begin=$SECONDS
rm -f "$logs"/*.counts
if [ $# -gt 0 ]; then
    run_stages "$@"
else
    run_stages "${first[@]}"
    groups=()
    trap 'kill -- "${groups[@]/#/-}" && exit 130' INT TERM
    set -m # a process group for each lane: other jobs in the background start with SIGINT ignored, which tests send
    for lane in "${lanes[@]}"; do
        read -ra beside <<<"$lane"
        run_stages "${beside[@]}" &
        groups+=($!)
    done
    wait
    set -- "${all[@]}"
fi
echo "$((SECONDS - begin)) s in all"
# A stage without counts was ended before its time.
passed=0 failed=0 skipped=0
for name in "$@"; do
    read -r p f s 2>/dev/null <"$logs/$name.counts" || { p=0 f=1 s=0 && echo "stage $name was not finished"; }
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
