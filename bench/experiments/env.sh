# Shared by the experiments: a virtual environment of their own under build/, and the programs they run. Sourced.
# shellcheck shell=bash

# experiment_python PACKAGE...: sets $python to an interpreter that has them
experiment_python() {
    local venv=build/experiments-venv package
    python=$venv/bin/python3
    if [ ! -x "$python" ]; then
        python3 -m venv "$venv" || { echo "python3 with its venv module is needed" >&2 && exit 1; }
    fi
    for package in "$@"; do
        "$python" -c "import $package" 2>/dev/null && continue
        echo "installing $package" >&2
        "$venv/bin/pip" install -q "$package"
    done
}

# experiment_build TARGET...: builds programs into build/
experiment_build() {
    [ -f build/build.ninja ] || [ -f build/Makefile ] || cmake -S . -B build >/dev/null
    cmake --build build --target "$@" >&2
}
