#!/usr/bin/env bash
# install.sh BUILD SOURCE CC TOOLS: installs into a scratch root, twice, then builds the first example against what is
# there with pkg-config and with find_package, shared and static, and runs it. Exit 77 (skipped) where pkg-config is
# missing.
set -u
build=$1 source=$2 cc=$3 tools=$4
source "$source/tests/skip.sh"
command -v pkg-config >/dev/null || skip "there is no pkg-config"
work=$(mktemp -d "${TMPDIR:-/tmp}/zenith-install.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
fail() { echo "$*"; exit 1; }

install() {
    DESTDIR=$work/root cmake --install "$build" --prefix /opt/zenith >"$work/log" 2>&1 || { cat "$work/log"; fail "install failed"; }
}
# Names, links and contents of what is installed.
installed() { (cd "$root" && find . -type l -printf '%p -> %l\n' && find . -type f -exec sha256sum {} +) | sort; }
root=$work/root/opt/zenith

rm -f "$build/zenith.pc" # of a build folder that is older than this test
install
installed >"$work/first"
[[ ! -e $build/zenith.pc ]] || fail "installing wrote into the build folder"
# What an older version left must go; files of others must stay.
touch "$root/include/zenith/gone.h" "$root/share/zenith/models/mine.safetensors"
libdir=$(dirname "$(find "$root" -name libzenith.a)")
touch "$libdir/libzenith.so.0.0.9"
install
[[ -e $root/share/zenith/models/mine.safetensors ]] || fail "installing removed weights that are not its own"
rm "$root/share/zenith/models/mine.safetensors"
installed >"$work/second"
diff "$work/first" "$work/second" || fail "installing twice is not the same as installing once"
pc=$(find "$root" -name zenith.pc)
[[ -n $pc ]] || fail "no zenith.pc"
grep -q '^prefix=/opt/zenith$' "$pc" || fail "zenith.pc has the wrong prefix: $(head -1 "$pc")"

for file in bin/zenith share/man/man1/zenith.1 share/bash-completion/completions/zenith share/zsh/site-functions/_zenith \
    share/fish/vendor_completions.d/zenith.fish include/zenith/zenith.h \
    share/zenith/models/zenith-r.safetensors share/zenith/models/zenith-restore.safetensors \
    share/zenith/models/zenith-f2.safetensors share/zenith/models/zenith-f2.LICENSE \
    share/zenith/models/zenith-restore-fast.safetensors share/zenith/models/zenith-upscale.safetensors \
    share/zenith/models/diffae-faces/model.safetensors share/zenith/models/diffae-pets/model.safetensors \
    share/zenith/models/zenith-mini/model_index.json share/zenith/models/zenith-mini/tokenizer/tokenizer.json \
    share/zenith/models/zenith-mini/{transformer,vae}/diffusion_pytorch_model.safetensors \
    share/zenith/models/zenith-mini/text_encoder/model.safetensors; do
    [[ -s $root/$file ]] || fail "$file was not installed"
done
[[ -s $libdir/libzenith.a && -s $libdir/libzenith.so ]] || fail "the libraries were not installed"
for header in "$source"/include/zenith/*.h; do
    cmp "$header" "$root/include/zenith/$(basename "$header")" || exit 1
done
! grep -rlF "$build" "$root" --include='*.pc' --include='*.cmake' --include='*.h' --include='*.1' || fail "a file names the build folder"

# The scratch root stands in for /.
export PKG_CONFIG_PATH=$libdir/pkgconfig PKG_CONFIG_SYSROOT_DIR=$work/root
[[ $(pkg-config --modversion zenith) == "$("$root/bin/zenith" --version | cut -d' ' -f2)" ]] || fail "versions differ"
"$tools/makeimage" "$work/in.png" 40 24 || exit 1
for kind in shared static; do
    if [[ $kind == shared ]]; then
        flags=$(pkg-config --cflags --libs zenith)
    else
        flags=$(pkg-config --static --cflags --libs zenith | sed "s|-lzenith|$libdir/libzenith.a|")
    fi
    "$cc" -std=c17 -Wall -Werror "$source/examples/01_roundtrip.c" -o "$work/example-$kind" $flags || fail "cannot link ($kind)"
done

# The same by find_package, from a project of its own.
mkdir "$work/project"
cp "$source/examples/01_roundtrip.c" "$work/project/example.c"
cat >"$work/project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.20)
project(example C)
find_package(zenith 0.1 REQUIRED)
add_executable(example-package example.c)
target_link_libraries(example-package PRIVATE zenith::zenith)
add_executable(example-package-static example.c)
target_link_libraries(example-package-static PRIVATE zenith::static)
END
{ cmake -S "$work/project" -B "$work" -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$root" && cmake --build "$work"; } >"$work/log" 2>&1 ||
    { cat "$work/log"; fail "find_package(zenith) failed"; }
sed -i 's/zenith 0.1 REQUIRED/zenith 9.0 REQUIRED/' "$work/project/CMakeLists.txt"
! cmake -S "$work/project" -B "$work/wrong" -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$root" >/dev/null 2>&1 || fail "find_package(zenith 9.0) succeeded"

for kind in shared static package package-static; do
    LD_LIBRARY_PATH=$libdir "$work/example-$kind" random:taesd "$work/in.png" "$work/$kind.png" >"$work/$kind.txt" ||
        fail "the example failed ($kind)"
    grep -q '^40x24 -> 5x3x4 -> PSNR' "$work/$kind.txt" || fail "unexpected: $(cat "$work/$kind.txt")"
    cmp "$work/shared.png" "$work/$kind.png" || fail "shared and $kind results differ"
done
# Only the public names are exported.
if command -v nm >/dev/null; then
    extra=$(nm -D --defined-only "$libdir/libzenith.so" | awk '$2 ~ /[A-Z]/ && $3 !~ /^(zn_|_init$|_fini$|_edata$|_end$|__bss_start$)/ { print $3 }')
    [[ -z $extra ]] || fail "exported without the zn_ prefix: $extra"
fi
exit 0
