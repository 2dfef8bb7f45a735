#!/usr/bin/env bash
# headers.sh ROOT CC CXX: every public header, alone, in each language; CXX may be "none". A header that needs another
# one first, is not valid in a language, or exports a name without the zn_ prefix fails here.
set -u
root=$1 cc=$2 cxx=$3
work=$(mktemp -d "${TMPDIR:-/tmp}/zenith-headers.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
failed=0

# try COMPILER FLAGS... FILE
try() {
    "$@" -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$root/include" || { echo "failed: $*"; failed=1; }
}

count=0
for header in "$root"/include/zenith/*.h; do
    name=zenith/$(basename "$header")
    count=$((count + 1))
    # Twice: the guard must hold.
    printf '#include <%s>\n#include <%s>\nint zenith_test_unit;\n' "$name" "$name" >"$work/one.c"
    cp "$work/one.c" "$work/one.cpp"
    for standard in c99 c11 c17; do try "$cc" -std=$standard "$work/one.c"; done
    if [[ $cxx != none ]]; then
        for standard in c++11 c++17 c++20; do try "$cxx" -std=$standard "$work/one.cpp"; done
    fi
    bad=$(grep -nE '^#define [A-Za-z]' "$header" | grep -vE '#define ZN_')
    if [[ -n $bad ]]; then
        echo "$name: macro without the ZN_ prefix: $bad"
        failed=1
    fi
done
[[ $count -ge 7 ]] || { echo "only $count headers found"; failed=1; }

try "$cc" -std=c17 "$root/examples/01_roundtrip.c"
[[ $cxx == none ]] || try "$cxx" -std=c++17 -x c++ "$root/examples/01_roundtrip.c"
try "$cc" -std=c17 "$root/examples/02_clip.c"
[[ $cxx == none ]] || try "$cxx" -std=c++17 -x c++ "$root/examples/02_clip.c"
try "$cc" -std=c17 "$root/examples/generate.c"
exit $failed
