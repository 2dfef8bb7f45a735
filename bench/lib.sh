# Shared by the scripts in this folder: run one measurement, read numbers from its JSON, install other engines. Source
# it, do not run it. $zenith is the program to measure.
# shellcheck shell=bash disable=SC2154

# field NAME: prints a number or string of the JSON object on stdin
field() { sed -n 's/.*"'"$1"'": *"\{0,1\}\([^",}]*\).*/\1/p' | head -1; }

# measure PART SIZE PRECISION RUNS [more]: prints the JSON of one `zenith bench` on one line
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

# use_venv DIR PACKAGE...: sets $python to that of a virtual environment with these packages; installs missing packages
use_venv() {
    local venv=$1 package
    shift
    python=$venv/bin/python3
    if [ ! -x "$python" ]; then
        python3 -m venv "$venv" || { echo "$0: python3 with its venv module is needed" >&2 && exit 1; }
    fi
    for package in "$@"; do
        "$python" -c "import $package" 2>/dev/null && continue
        echo "$0: installing $package" >&2
        "$venv/bin/pip" install -q "$package" || echo "$0: $package could not be installed; going on without" >&2
    done
}
