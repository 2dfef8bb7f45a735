#!/usr/bin/env bash
# wheel.sh ROOT BUILD PYTHON PROGRAM: builds the wheel, installs it into a fresh virtual environment without a network,
# and compares what it computes with the program. The same for `pip install` of the source with an installed library.
# Exit 77 (skipped) where Python has no venv.
set -u
root=$1 build=$2 python=$3 program=$4
source "$root/tests/skip.sh"
fail() { echo "$*"; exit 1; }
work=$(mktemp -d "${TMPDIR:-/tmp}/zenith-wheel.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
unset ZENITH_LIBRARY ZENITH_MODELS PYTHONPATH
export HOME=$work PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
"$python" -m venv "$work/one" >"$work/log" 2>&1 || skip "$python has no venv ($(head -1 "$work/log"))"
"$python" -m venv "$work/two" || exit 1

wheel=$("$root/python/build_wheel.sh" "$build" "$work") || fail "the wheel was not built"
[[ $wheel == *-py3-none-*linux*.whl ]] || fail "unexpected name: $wheel"
"$work/one/bin/pip" install -q "$wheel" || fail "pip cannot install $wheel"
cd "$work" || exit 99
cat >use.py <<'END'
import sys, zenith
codec = zenith.Codec("zenith-r")
codec.decode(codec.encode(sys.argv[1])).write(sys.argv[2])
print(zenith.version(), zenith.__version__)
END
one/bin/python use.py "$root/assets/demo.png" wheel.png || fail "the wheel does not work"
"$program" reconstruct -q "$root/assets/demo.png" -m zenith-r -o program.png >/dev/null || exit 1
cmp wheel.png program.png || fail "the wheel and the program differ"

# Every bundled model is there, and the licences of what others made.
cat >all.py <<'END'
import os, zenith
carried = os.path.join(os.path.dirname(zenith.__file__), "share", "zenith", "models")
print(*sorted(os.path.relpath(os.path.join(folder, name), carried) for folder, _, names in os.walk(carried) for name in names), sep="\n")
zenith.Generator().generate("a portrait of a smiling woman", steps=1, seed=1).write("woman.png")
for name in ("diffae-faces", "diffae-pets"):
    d = zenith.DiffAE(name)
    d.edit("woman.png", d.attributes[0], encode_steps=0, steps=2)
END
one/bin/python all.py >carried || fail "a bundled model does not work"
(cd "$root/weights" && find . -type f -printf '%P\n' | LC_ALL=C sort) >bundled
LC_ALL=C sort carried | diff - bundled || fail "the wheel carries other weights than the project"

# The package alone: it says what is missing, and works with a library of the system.
cp -r "$root/python" source
two/bin/pip install -q ./source || fail "pip install of the source failed"
two/bin/python -c 'import zenith' 2>error && [[ -z $(ldconfig -p 2>/dev/null | grep libzenith) ]] && fail "a library was found"
[[ ! -s error ]] || grep -q 'ImportError: libzenith was not found; install it' error || fail "unexpected: $(tail -1 error)"
mkdir -p system/lib system/share/zenith
cp "$build/src/libzenith.so.0" system/lib/
ln -s "$root/weights" system/share/zenith/models
LD_LIBRARY_PATH=$work/system/lib two/bin/python use.py "$root/assets/demo.png" pure.png || fail "the package does not find the library"
cmp pure.png program.png || fail "the package and the program differ"
mkdir .local
cp -r system/* .local/ # as by make install PREFIX=~/.local, which the system's loader does not know
two/bin/python use.py "$root/assets/demo.png" home.png || fail "the package does not find a library in ~/.local"
cmp home.png program.png || fail "the package and the library in ~/.local differ"
