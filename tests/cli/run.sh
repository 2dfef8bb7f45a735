#!/usr/bin/env bash
# Runs one case: run.sh PROGRAM TOOLS CASE.sh
# A case is a bash script beside what it must print: CASE.stdout and CASE.stderr (exact; absent means empty), or
# CASE.stdout.glob and CASE.stderr.glob (each line a shell pattern, a line "..." stands for any number of lines).
# CASE.exit holds the exit status where it is not 0. The script runs in an empty folder with the program and the tools
# in PATH, no models in reach and no lines in logs that depend on time. Under the address sanitizer leaks are looked for by cases/leaks.sh alone, because the
# search takes seconds for each process on some machines.
set -u
program=$1 tools=$2 case=$3
base=${case%.sh}
source_root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/zenith-cli.XXXXXX") || exit 99
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/home" "$work/run"
# Copies, not links: beside its build tree the program finds the bundled weights, and another test run may be building.
cp "$tools"/* "$work/bin/" 2>/dev/null
cp "$program" "$work/bin/zenith"

cd "$work/run" || exit 99
env -i PATH="$work/bin:$PATH" HOME="$work/home" XDG_DATA_HOME="$work/home/data" XDG_DATA_DIRS="$work/share" \
    SOURCE="$source_root" LC_ALL=C TERM=dumb COLUMNS=80 ZENITH_LOG_SECONDS=0 ZENITH_KILLS="${ZENITH_KILLS-}" ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0" \
    bash -u "$case" >"$work/stdout" 2>"$work/stderr" </dev/null
status=$?

# Does the file $1 match the patterns in $2? Tells the first line that does not.
matches() {
    local -a lines patterns
    mapfile -t lines <"$1"
    mapfile -t patterns <"$2"
    local i=0 p skipping=0
    for p in "${patterns[@]}"; do
        if [[ $p == ... ]]; then
            skipping=1
            continue
        fi
        while [[ $i -lt ${#lines[@]} && $skipping == 1 && ${lines[$i]} != $p ]]; do i=$((i + 1)); done
        if [[ $i -ge ${#lines[@]} || ${lines[$i]} != $p ]]; then
            printf 'line %d does not match\n  pattern: %s\n  text:    %s\n' $((i + 1)) "$p" "${lines[$i]-(end)}"
            return 1
        fi
        i=$((i + 1)) skipping=0
    done
    if [[ $i -lt ${#lines[@]} && $skipping == 0 ]]; then
        printf 'line %d is not expected: %s\n' $((i + 1)) "${lines[$i]}"
        return 1
    fi
}

failed=0
for stream in stdout stderr; do
    if [[ -e $base.$stream.glob ]]; then
        matches "$work/$stream" "$base.$stream.glob" || failed=1
    elif [[ -e $base.$stream ]]; then
        diff -u --label expected --label "$stream" "$base.$stream" "$work/$stream" || failed=1
    elif [[ -s $work/$stream ]]; then
        echo "$stream is not empty"
        failed=1
    fi
done
expected=0
[[ -e $base.exit ]] && expected=$(<"$base.exit")
if [[ $status != "$expected" ]]; then
    echo "exit status $status, expected $expected"
    failed=1
fi
if [[ $failed == 1 ]]; then
    echo "--- stdout"; cat "$work/stdout"
    echo "--- stderr"; cat "$work/stderr"
fi
exit $failed
