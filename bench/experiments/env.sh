# Shared by the experiments: a virtual environment of their own under build/, and the programs they run. Sourced.
# shellcheck shell=bash

# shellcheck source=bench/lib.sh
. bench/lib.sh

# Help needs neither packages nor programs.
case " $* " in
    *" -h "* | *" --help "*) exec python3 "bench/experiments/$(basename "$0").py" --help ;;
esac

# experiment_python PACKAGE...: sets $python to an interpreter that has them
experiment_python() {
    use_venv build/experiments-venv "$@"
}

# experiment_build TARGET...: builds programs into build/
experiment_build() {
    [ -f build/build.ninja ] || [ -f build/Makefile ] || cmake -S . -B build >/dev/null
    cmake --build build --target "$@" >&2
}
