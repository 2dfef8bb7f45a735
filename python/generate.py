#!/usr/bin/env python3
"""Writes the declarations of the Python package from the public headers.

    python/generate.py            write python/zenith/_c.py
    python/generate.py --check    fail if that file is not what the headers say
    python/generate.py --layout   print a C program that prints the size, offsets and values of everything declared

The headers keep to a small part of C: enums, structs, handles, function pointers and ZN_API functions. Anything else is
an error here, so that nothing is left out unnoticed.
"""

import keyword
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADERS = ROOT / "include" / "zenith"
OUTPUT = ROOT / "python" / "zenith" / "_c.py"

SCALARS = {
    "int": ("c_int", "int"),
    "unsigned": ("c_uint", "int"),
    "double": ("c_double", "float"),
    "float": ("c_float", "float"),
    "char": ("c_char", "Bytes"),
    "size_t": ("c_size_t", "int"),
    "uint8_t": ("c_uint8", "int"),
    "uint16_t": ("c_uint16", "int"),
    "int32_t": ("c_int32", "int"),
    "uint32_t": ("c_uint32", "int"),
    "int64_t": ("c_int64", "int"),
    "uint64_t": ("c_uint64", "int"),
}


class Declarations:
    """What the headers declare, in their order."""

    def __init__(self):
        self.constants = []  # (name, expression)
        self.enums = set()
        self.structs = {}  # name: [(field, type, annotation)]; [] for a handle
        self.callbacks = {}  # name: prototype
        self.functions = {}  # name: (result, [argument])

    # ---- types ----

    def base_type(self, name):
        if name in SCALARS:
            return SCALARS[name][0]
        if name in self.enums:
            return "c_int"
        if name in self.structs or name in self.callbacks:
            return name
        raise SystemExit(f"python/generate.py: unknown type '{name}'")

    def type_of(self, base, stars, in_array=False):
        """The ctypes type of `base` with so many stars."""
        if stars == 0:
            return "None" if base == "void" else self.base_type(base)
        if base == "void":
            inner = "c_void_p"
        elif base == "char":
            inner = "c_char_p"
        else:
            inner = f"POINTER({self.base_type(base)})"
        for _ in range(stars - 1):
            inner = f"POINTER({inner})"
        return inner

    def annotation(self, base, ctype):
        if ctype in self.structs:
            return ctype
        if ctype.startswith("c_") and base in SCALARS and ctype == SCALARS[base][0]:
            return SCALARS[base][1]
        if base in self.enums and ctype == "c_int":
            return "int"
        if ctype == "c_char_p":
            return "Optional[Bytes]"
        return "Any"

    def argument(self, text):
        """The ctypes type of one parameter."""
        text = re.sub(r"\bconst\b", " ", text).strip()
        match = re.fullmatch(r"(\w+)\s*((?:\*\s*)*)(\w+)?\s*(\[\w*\])?", text)
        if not match:
            raise SystemExit(f"python/generate.py: cannot read the parameter '{text}'")
        base, stars, _, array = match.groups()
        return self.type_of(base, stars.count("*") + (1 if array else 0))

    def arguments(self, text):
        text = text.strip()
        return [] if text == "void" else [self.argument(part) for part in text.split(",")]

    def prototype(self, result, arguments):
        return f"CFUNCTYPE({', '.join([self.argument(result)] + self.arguments(arguments))})"

    # ---- declarations ----

    def enumeration(self, name, body):
        if name:
            self.enums.add(name)
        previous = None
        for entry in filter(None, (part.strip() for part in body.split(","))):
            key, _, value = (part.strip() for part in entry.partition("="))
            self.constants.append((key, value or (f"{previous} + 1" if previous else "0")))
            previous = key

    def fields(self, body):
        for line in filter(None, (part.strip() for part in body.split(";"))):
            pointer = re.fullmatch(r"(.+?)\(\s*\*\s*(\w+)\s*\)\s*\((.*)\)", line, re.S)
            if pointer:
                yield pointer[2], self.prototype(pointer[1], pointer[3]), "Any"
                continue
            line = re.sub(r"\bconst\b", " ", line).strip()
            base, rest = re.fullmatch(r"(\w+)\s*(.*)", line, re.S).groups()
            for declarator in rest.split(","):
                match = re.fullmatch(r"((?:\*\s*)*)(\w+)\s*(?:\[(\w+)\])?", declarator.strip())
                if not match:
                    raise SystemExit(f"python/generate.py: cannot read the field '{line}'")
                stars, name, length = match.groups()
                ctype = self.type_of(base, stars.count("*"))
                if length:
                    yield name, f"{ctype} * {length}", "Bytes" if ctype == "c_char" else "Any"
                else:
                    yield name, ctype, self.annotation(base, ctype)

    def statement(self, text):
        """One declaration, without comments and without its semicolon."""
        text = re.sub(r"\s+", " ", text).strip()
        if not text:
            return
        match = re.fullmatch(r"(?:typedef )?enum (\w+)? ?\{(.*)\} ?(\w+)?", text)
        if match:
            return self.enumeration(match[3], match[2])
        match = re.fullmatch(r"typedef struct (\w+) \1", text)
        if match:
            self.structs.setdefault(match[1], [])
            return
        match = re.fullmatch(r"typedef struct (\w+) \{(.*)\} \1", text)
        if match:
            self.structs[match[1]] = []
            self.structs[match[1]] = list(self.fields(match[2]))
            return
        match = re.fullmatch(r"typedef (.+?) ?\( ?\*(\w+)\) ?\((.*)\)", text)
        if match:
            self.callbacks[match[2]] = self.prototype(match[1], match[3])
            return
        match = re.fullmatch(r"ZN_API (?:ZN_MUST_USE )?(.+?)(\w+)\((.*)\)", text)
        if match:
            self.functions[match[2]] = (self.argument(match[1]), self.arguments(match[3]))
            return
        raise SystemExit(f"python/generate.py: cannot read '{text}'")


def python_name(field):
    """The name of a field in Python: `from` is a keyword there."""
    return field + "_" if keyword.iskeyword(field) else field


def header_order():
    """Header names, each after those it includes."""
    done = []

    def visit(name):
        if name in done:
            return
        for other in re.findall(r"#include <zenith/(\w+\.h)>", (HEADERS / name).read_text()):
            visit(other)
        done.append(name)

    for path in sorted(HEADERS.glob("*.h")):
        visit(path.name)
    return done


def statements(text):
    """Declarations of a header: comments, directives and the C++ wrapper removed, split at semicolons outside braces."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    text = re.sub(r"#ifdef __cplusplus.*?#endif", " ", text, flags=re.S)
    text = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*$", " ", text, flags=re.M)
    depth, current = 0, ""
    for c in text:
        depth += (c == "{") - (c == "}")
        if c == ";" and depth == 0:
            yield current
            current = ""
        else:
            current += c
    if current.strip():
        raise SystemExit(f"python/generate.py: text after the last declaration: '{current.strip()}'")


def read_headers():
    declarations = Declarations()
    for name in header_order():
        for text in statements((HEADERS / name).read_text()):
            declarations.statement(text)
    return declarations


def python_text(d):
    out = [f"{name} = {value}" for name, value in d.constants]
    handles = [name for name, fields in d.structs.items() if not fields]
    for name in handles:
        out += ["", "", f"class {name}(Structure):", "    pass"]
    out += ["", ""]
    written = set()
    for name, prototype in d.callbacks.items():  # those that name no struct with fields come first
        if not any(s in prototype for s in d.structs if s not in handles):
            out.append(f"{name} = {prototype}")
            written.add(name)
    for name, fields in d.structs.items():
        if not fields:
            continue
        out += ["", "", f"class {name}(Record):"]
        out += [f"    {python_name(field)}: {annotation}" for field, _, annotation in fields]
        out += ["    _fields_ = ["]
        out += [f'        ("{python_name(field)}", {ctype}),' for field, ctype, _ in fields]
        out += ["    ]"]
        pending = [c for c in d.callbacks if c not in written]
        for callback in pending:
            needs = [s for s in d.structs if d.structs[s] and re.search(rf"\b{s}\b", d.callbacks[callback])]
            order = list(d.structs)
            if all(order.index(s) <= order.index(name) for s in needs):
                out += ["", "", f"{callback} = {d.callbacks[callback]}"]
                written.add(callback)
    missing = set(d.callbacks) - written
    if missing:
        raise SystemExit(f"python/generate.py: no place found for {missing}")
    out += ["", "", "# name: (result, arguments)", "FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {"]
    out += [f'    "{name}": ({result}, [{", ".join(arguments)}]),' for name, (result, arguments) in d.functions.items()]
    body = "\n".join(out + ["}", ""])
    used = sorted(set(re.findall(r"\bc_\w+", body)))
    integers = ", ".join(name for name in used if re.match(r"c_(u?int|size_t)", name))
    head = f'''"""Declarations of libzenith for ctypes. Written by python/generate.py from include/zenith; do not edit."""

from ctypes import CFUNCTYPE, POINTER, Structure
from ctypes import {", ".join(used)}
from typing import Any, Dict, List, Optional, Tuple

Bytes = bytes  # some structs have a field of that name
INTEGERS = ({integers})


class Record(Structure):
    """Refuses whole numbers that a field cannot hold, of which ctypes would keep the lower bits."""

    def __init__(self, *first: Any, **values: Any) -> None:
        values.update(zip((name for name, _ in self._fields_), first))
        for name, kind in self._fields_:
            value = values.get(name)
            if isinstance(value, int) and issubclass(kind, INTEGERS) and kind(value).value != value:
                raise ValueError(f"{{name}}: {{value}} is out of range")
        super().__init__(**values)

'''
    return head + body


def layout_text(d):
    """A C program whose lines must equal those that tests/python/declarations.sh prints from ctypes."""
    out = ["#include <stdio.h>", "#include <stddef.h>", "#include <zenith/zenith.h>", "int main(void)", "{"]
    out += [f'    printf("{name} = %lld\\n", (long long){name});' for name, _ in d.constants]
    for name, fields in d.structs.items():
        if fields:
            out.append(f'    printf("{name}: %zu\\n", sizeof({name}));')
        for field, _, _ in fields:
            out.append(f'    printf("{name}.{python_name(field)}: %zu + %zu\\n", offsetof({name}, {field}), '
                       f"sizeof((({name} *)0)->{field}));")
    return "\n".join(out + ["    return 0;", "}", ""])


def main():
    declarations = read_headers()
    if sys.argv[1:] == ["--layout"]:
        sys.stdout.write(layout_text(declarations))
    elif sys.argv[1:] == ["--check"]:
        if not OUTPUT.exists() or OUTPUT.read_text() != python_text(declarations):
            raise SystemExit("python/zenith/_c.py is older than include/zenith; run python/generate.py")
    elif not sys.argv[1:]:
        OUTPUT.write_text(python_text(declarations))
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
