# Shared by bench/speed and bench/scaling: one measurement, and numbers out of its JSON. Sourced, not run; the program
# to measure is $zenith.
# shellcheck shell=bash disable=SC2154

# field NAME: a number or string of the JSON object on stdin
field() { sed -n 's/.*"'"$1"'": *"\{0,1\}\([^",}]*\).*/\1/p' | head -1; }

# measure PART SIZE PRECISION RUNS [more]: the JSON of one `zenith bench`, on one line
measure() {
    local part=$1 size=$2 precision=$3 runs=$4
    shift 4
    # shellcheck disable=SC2086  # ZENITH_PREFIX is a command with arguments, such as "chrt -f 10"
    ${ZENITH_PREFIX-} "$zenith" bench --model "${ZENITH_MODEL:-random:taesd}" --part "$part" --size "$size" \
        --precision "$precision" --runs "$runs" --json --quiet "$@" | tr '\n' ' '
}

describe_machine() {
    local cpu
    cpu=$(lscpu 2>/dev/null | sed -n 's/^Model name: *//p' | head -1)
    echo "${cpu:-$(uname -m)}, $(nproc) CPUs, commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
}
