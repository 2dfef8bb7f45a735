#!/usr/bin/env bash
# install.sh BUILD SOURCE CC TOOLS: installs into a scratch root, then builds the first example against what is there
# with pkg-config, shared and static, and runs it. Exit 77 (skipped) where pkg-config is missing.
set -u
build=$1 source=$2 cc=$3 tools=$4
command -v pkg-config >/dev/null || exit 77
work=$(mktemp -d "${TMPDIR:-/tmp}/zenith-install.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
fail() { echo "$*"; exit 1; }

DESTDIR=$work/root cmake --install "$build" --prefix /opt/zenith >"$work/log" 2>&1 || { cat "$work/log"; fail "install failed"; }
root=$work/root/opt/zenith
pc=$(find "$root" -name zenith.pc)
[[ -n $pc ]] || fail "no zenith.pc"
grep -q '^prefix=/opt/zenith$' "$pc" || fail "zenith.pc has the wrong prefix: $(head -1 "$pc")"
libdir=$(dirname "$(dirname "$pc")")

for file in bin/zenith share/man/man1/zenith.1 share/bash-completion/completions/zenith share/zsh/site-functions/_zenith \
    share/fish/vendor_completions.d/zenith.fish include/zenith/zenith.h \
    share/zenith/models/zenith-r.safetensors share/zenith/models/zenith-restore.safetensors; do
    [[ -s $root/$file ]] || fail "$file was not installed"
done
[[ -s $libdir/libzenith.a && -s $libdir/libzenith.so ]] || fail "the libraries were not installed"
for header in "$source"/include/zenith/*.h; do
    cmp "$header" "$root/include/zenith/$(basename "$header")" || exit 1
done
! grep -rlF "$build" "$root" --include='*.pc' --include='*.h' --include='*.1' || fail "a file names the build folder"

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
    LD_LIBRARY_PATH=$libdir "$work/example-$kind" random:taesd "$work/in.png" "$work/$kind.png" >"$work/$kind.txt" ||
        fail "the example failed ($kind)"
    grep -q '^40x24 -> 5x3x4 -> PSNR' "$work/$kind.txt" || fail "unexpected: $(cat "$work/$kind.txt")"
done
cmp "$work/shared.png" "$work/static.png" || fail "shared and static results differ"
# Only the public names are exported.
if command -v nm >/dev/null; then
    extra=$(nm -D --defined-only "$libdir/libzenith.so" | awk '$2 ~ /[A-Z]/ && $3 !~ /^(zn_|_init$|_fini$|_edata$|_end$|__bss_start$)/ { print $3 }')
    [[ -z $extra ]] || fail "exported without the zn_ prefix: $extra"
fi
exit 0
