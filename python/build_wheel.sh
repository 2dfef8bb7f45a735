#!/usr/bin/env bash
# build_wheel.sh [BUILD [OUT]]: a wheel that carries libzenith of the build folder, the libraries that it needs beside
# those of every Linux, and the bundled weights. It is written to OUT (BUILD/wheel) and its path is printed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../build}" && pwd)
out=${2:-$build/wheel}
library=$build/src/libzenith.so.0
[ -e "$library" ] || { echo "build_wheel.sh: there is no $library; build it first (make build)" >&2; exit 1; }

files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
mkdir -p "$files/lib" "$files/share/zenith/models" "$out"
cp -L "$library" "$files/lib/libzenith.so.0"
# The C library, its parts and the loader are the system's; everything else comes along.
ldd "$library" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' |
    grep -vE '/(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|ld-linux[^/]*)\.so' | xargs -r -I{} cp -L {} "$files/lib/"
if command -v strip >/dev/null; then strip --strip-unneeded "$files"/lib/*.so*; fi
cp -r "$here/../weights/." "$files/share/zenith/models/" # with the folders, and the README, which names sources and licences

cd "$here"
wheel=$(ZENITH_WHEEL_FILES=$files python3 -c 'import sys, build_backend; print(build_backend.build_wheel(sys.argv[1]))' "$out")
echo "$out/$wheel"
