#!/usr/bin/env bash
# declarations.sh ROOT PYTHON CC LIBRARY: the declarations of the Python package are those of the headers, and ctypes
# lays structs out as the C compiler does.
set -u
root=$1 python=$2 cc=$3 library=$4
work=$(mktemp -d "${TMPDIR:-/tmp}/zenith-python.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1
"$python" "$root/python/generate.py" --check || exit 1
"$python" "$root/python/generate.py" --layout >"$work/layout.c" || exit 1
# The layout needs no library; a function that the library lacks is found by loading the package (python.package).
"$cc" -std=c17 -I"$root/include" -c "$work/layout.c" -o "$work/layout.o" || exit 1
case $(basename "$library") in *.so*) ;; *) echo "no shared library: $library"; exit 1 ;; esac
"$cc" "$work/layout.o" "$library" -Wl,-rpath,"$(dirname "$library")" -Wl,--allow-shlib-undefined -o "$work/layout" || exit 1
ASAN_OPTIONS=detect_leaks=0 "$work/layout" >"$work/c.txt" || exit 1
PYTHONPATH=$root/python/zenith "$python" - >"$work/python.txt" <<'END' || exit 1
import ctypes
import _c

for name, value in vars(_c).items():
    if name.startswith("ZN_"):
        print(f"{name} = {value}")
for name, kind in vars(_c).items():
    if name.startswith("zn_") and isinstance(kind, type(ctypes.Structure)) and hasattr(kind, "_fields_"):
        print(f"{name}: {ctypes.sizeof(kind)}")
        for field, *_ in kind._fields_:
            at = getattr(kind, field)
            print(f"{name}.{field}: {at.offset} + {at.size}")
END
[[ $(wc -l <"$work/c.txt") -gt 300 ]] || { echo "only $(wc -l <"$work/c.txt") declarations"; exit 1; }
diff <(sort "$work/c.txt") <(sort "$work/python.txt")
