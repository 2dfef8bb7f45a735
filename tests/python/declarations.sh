#!/usr/bin/env bash
# declarations.sh ROOT PYTHON CC: the declarations of the Python package are those of the headers, and ctypes lays structs
# out as the C compiler does. That the library has all functions is checked where the package loads it (python.package).
set -u
root=$1 python=$2 cc=$3
work=$(mktemp -d "${TMPDIR:-/tmp}/zenith-python.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1
"$python" "$root/python/generate.py" --check || exit 1
"$python" "$root/python/generate.py" --layout >"$work/layout.c" || exit 1
"$cc" -std=c17 -I"$root/include" "$work/layout.c" -o "$work/layout" || exit 1
"$work/layout" >"$work/c.txt" || exit 1
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
