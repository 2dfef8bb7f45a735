#!/bin/sh
# Installs the dependencies of build and tests on Debian and Ubuntu. Checks the system first: if everything is
# installed, it downloads nothing and needs no root rights.
#
#     scripts/deps.sh build               compiler, build tools, libraries for images and video
#     scripts/deps.sh build check         plus the libraries of the tests
#     scripts/deps.sh build test          plus clang, cross compiler, emulator
#     scripts/deps.sh build test nightly  plus valgrind and the cross compiler for RISC-V
#     scripts/deps.sh build deb           plus the tools to build Debian packages
set -eu

missing=

# need PACKAGE COMMAND...: adds the package to the missing ones unless the command succeeds
need() {
    package=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $package"
}
# clang prints the path of a part that is installed, and only the name of one that is missing.
clang_has() { [ -e "$(clang --print-file-name="$1")" ]; }
library() { pkg-config --exists "$1"; }

build() {
    need gcc command -v gcc
    need libc6-dev test -e /usr/include/stdio.h
    need make command -v make
    need cmake command -v cmake
    need ninja-build command -v ninja
    need pkg-config command -v pkg-config
    need libpng-dev library libpng
    need libjpeg62-turbo-dev library libjpeg
    need libwebp-dev library libwebp
    need liblcms2-dev library lcms2
    need libheif-dev library libheif
    need libtiff-dev library libtiff-4
    need libgif-dev test -e /usr/include/gif_lib.h
    need liblmdb-dev test -e /usr/include/lmdb.h
    need libavformat-dev library libavformat
    need libswscale-dev library libswscale
    need libmicrohttpd-dev library libmicrohttpd
    need libhiredis-dev library hiredis
    need libcurl4-openssl-dev library libcurl
    need libopenmpi-dev command -v mpicc
    need openmpi-bin command -v mpirun
}

# The tests of the Python package run with the first Python that has NumPy.
has_numpy() { python3 -c 'import numpy' || /usr/bin/python3 -c 'import numpy'; }
check() {
    need libcmocka-dev library cmocka
    need python3-numpy has_numpy
    need python3-venv python3 -c 'import ensurepip'
}

test_group() {
    check
    need libheif-examples command -v heif-enc
    need ffmpeg command -v ffmpeg
    need mypy command -v mypy
    need g++ command -v g++
    need chromium command -v chromium
    need redis-server command -v redis-server
    need nginx test -x /usr/sbin/nginx
    need clang command -v clang
    need clang-format command -v clang-format
    need libclang-rt-14-dev clang_has "libclang_rt.fuzzer-$(uname -m).a"
    need llvm command -v llvm-symbolizer
    if [ "$(uname -m)" = x86_64 ]; then
        need gcc-aarch64-linux-gnu command -v aarch64-linux-gnu-gcc
        need libc6-dev-arm64-cross test -e /usr/aarch64-linux-gnu/include/stdio.h
    else
        need gcc-x86-64-linux-gnu command -v x86_64-linux-gnu-gcc
        need libc6-dev-amd64-cross test -e /usr/x86_64-linux-gnu/include/stdio.h
    fi
    need qemu-user command -v qemu-aarch64
}

nightly() {
    need valgrind command -v valgrind
    need gcc-riscv64-linux-gnu command -v riscv64-linux-gnu-gcc
    need libc6-dev-riscv64-cross test -e /usr/riscv64-linux-gnu/include/stdio.h
}

deb() {
    need debhelper command -v dh
    need dpkg-dev command -v dpkg-buildpackage
    need lintian command -v lintian
}

for group in "$@"; do
    case $group in
    build) build ;;
    check) check ;;
    test) test_group ;;
    nightly) nightly ;;
    deb) deb ;;
    *) echo "usage: scripts/deps.sh [build] [check] [test] [nightly] [deb]" >&2 && exit 2 ;;
    esac
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "scripts/deps.sh: please install what Debian calls$missing; this system has no apt-get." >&2
    exit 1
fi
as_root=
if [ "$(id -u)" != 0 ]; then
    as_root=sudo
    if ! command -v sudo >/dev/null; then
        echo "scripts/deps.sh: please run as root: apt-get install$missing" >&2
        exit 1
    fi
fi
echo "installing$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086  # both are lists of words
if ! { $as_root apt-get update -q && DEBIAN_FRONTEND=noninteractive $as_root apt-get install -q -y \
    --no-install-recommends $missing; } >"$log" 2>&1; then
    tail -5 "$log" >&2
    echo "scripts/deps.sh: apt-get could not install$missing; is the network reachable?" >&2
    exit 1
fi
