# Shared by the experiments: their virtual environment under build/, and the programs they run. Sourced, not run.
# shellcheck shell=bash

# shellcheck source=bench/lib.sh
. bench/lib.sh

# --help works without packages and programs.
case " $* " in
    *" -h "* | *" --help "*) exec python3 "bench/experiments/$(basename "$0").py" --help ;;
esac

# experiment_python PACKAGE...: sets $python to an interpreter with these packages
experiment_python() {
    use_venv build/experiments-venv "$@"
}

# experiment_build TARGET...: builds programs in build/
experiment_build() {
    [ -f build/build.ninja ] || [ -f build/Makefile ] || cmake -S . -B build >/dev/null
    cmake --build build --target "$@" >&2
}
