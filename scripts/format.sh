#!/bin/sh
# Formats every C file. With --check, only lists files that are not formatted.
set -eu
cd "$(dirname "$0")/.."
files=$(find include src cli server tests bench examples \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cpp' \) | LC_ALL=C sort)
if [ "${1:-}" = --check ]; then
    # shellcheck disable=SC2086  # a list of files
    exec clang-format --dry-run --Werror $files
fi
# shellcheck disable=SC2086
exec clang-format -i $files
