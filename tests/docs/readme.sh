#!/usr/bin/env bash
# readme.sh ROOT LIBRARIES PROGRAM CC: runs the blocks of README.md that follow "<!-- runs out of the box -->": the
# commands in a folder laid out like a fresh clone after `make`, the C program compiled against the library. Only what
# is in the tree can be found, so a command that needs other weights fails.
set -u
root=$1 libraries=$2 program=$3 cc=$4
work=$(mktemp -d "${TMPDIR:-/tmp}/zenith-readme.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
fail() { echo "$*"; exit 1; }

# block LANGUAGE: the marked block in this language
block() {
    awk -v fence='```'"$1" '
        /^<!-- runs out of the box -->$/ { marked = 1; next }
        marked && $0 == fence { inside = 1; next }
        /^```$/ { inside = 0 }
        /^```/ { marked = 0 }
        inside' "$root/README.md"
}

clone=$work/clone
mkdir -p "$clone/build/cli" "$work/home"
ln -s "$root/assets" "$root/weights" "$root/docs" "$clone/"
ln -s "$program" "$clone/build/cli/zenith"
cd "$clone" || exit 99
export HOME=$work/home XDG_DATA_HOME=$work/home/data XDG_DATA_DIRS=$work/share
unset ZENITH_MODELS

block sh >"$work/commands.sh"
[[ $(grep -c '^zenith ' "$work/commands.sh") -ge 10 ]] || fail "README.md has fewer than 10 runnable commands"
bash -euo pipefail -x "$work/commands.sh" >"$work/log" 2>&1 </dev/null || { cat "$work/log"; fail "a command of README.md failed"; }
cmp out/demo.png out/pipe.png || fail "a pipe gives another result than files"
for file in both.png clean.png demo.safetensors f32.safetensors scores.csv photos.lmdb run/model.safetensors; do
    [[ -s out/$file ]] || fail "README.md's commands wrote no out/$file"
done

block c >"$work/program.c"
grep -q '^int main' "$work/program.c" || fail "README.md has no runnable C program"
"$cc" -std=c17 -Wall -Wextra -Werror -I"$root/include" "$work/program.c" -o "$work/program" \
    -L"$libraries" -lzenith -Wl,-rpath,"$libraries" || fail "README.md's C program does not build"
"$work/program" || fail "README.md's C program failed"
cmp demo.safetensors out/demo.safetensors || fail "README.md's C program gives another latent than the program"
