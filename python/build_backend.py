"""Builds the wheel and the source archive (PEP 517). It needs nothing but Python, so `pip install .` works offline.

$ZENITH_WHEEL_FILES names a folder that is added to the package: lib/ with the shared library and those it needs, and
share/zenith/models with weights. Without it the wheel is pure Python and uses the library that is installed.
"""

import base64
import hashlib
import io
import os
import re
import tarfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAME = "zenith"
VERSION = re.search(r'^__version__ = "(.+)"$', (HERE / NAME / "_library.py").read_text(), re.M)[1]

METADATA = f"""Metadata-Version: 2.1
Name: {NAME}
Version: {VERSION}
Summary: Image latents, restoration, video and images from prompts, on libzenith
License: MIT
Requires-Python: >=3.9
Description-Content-Type: text/markdown

{(HERE / 'README.md').read_text()}"""


def _package_files():
    """(name in the wheel, bytes)"""
    for path in sorted((HERE / NAME).rglob("*")):
        if path.is_file() and path.suffix in (".py", ".typed"):
            yield str(path.relative_to(HERE)), path.read_bytes()


def _carried_files():
    folder = os.environ.get("ZENITH_WHEEL_FILES")
    if folder:
        for path in sorted(Path(folder).rglob("*")):
            if path.is_file():
                yield f"{NAME}/{path.relative_to(folder)}", path.read_bytes()


def _platform(carried):
    """The tag of the libraries: manylinux by the newest glibc that one of them asks for."""
    needs = [(int(a), int(b)) for name, data in carried if ".so" in name
             for a, b in re.findall(rb"GLIBC_(\d+)\.(\d+)", data)]
    machine = os.uname().machine
    if not needs:
        return f"linux_{machine}"
    major, minor = max(needs + [(2, 17)])
    return f"manylinux_{major}_{minor}_{machine}"


def _line(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def _write_wheel(folder, files, tag, pure):
    info = f"{NAME}-{VERSION}.dist-info"
    wheel = f"Wheel-Version: 1.0\nGenerator: zenith\nRoot-Is-Purelib: {str(pure).lower()}\nTag: py3-none-{tag}\n"
    files = files + [(f"{info}/METADATA", METADATA.encode()), (f"{info}/WHEEL", wheel.encode())]
    record = "".join(_line(*file) for file in files) + f"{info}/RECORD,,\n"
    name = f"{NAME}-{VERSION}-py3-none-{tag}.whl"
    with zipfile.ZipFile(Path(folder) / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files + [(f"{info}/RECORD", record.encode())]:
            entry = zipfile.ZipInfo(path, (2026, 1, 1, 0, 0, 0))  # the same bytes whenever it is built
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    carried = list(_carried_files())
    tag = _platform(carried) if carried else "any"
    return _write_wheel(wheel_directory, list(_package_files()) + carried, tag, not carried)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _write_wheel(wheel_directory, [(f"{NAME}.pth", f"{HERE}\n".encode())], "any", True)


def build_sdist(sdist_directory, config_settings=None):
    base = f"{NAME}-{VERSION}"
    files = list(_package_files()) + [("PKG-INFO", METADATA.encode())]
    files += [(name, (HERE / name).read_bytes()) for name in ("README.md", "build_backend.py", "pyproject.toml")]
    with tarfile.open(Path(sdist_directory) / f"{base}.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for path, data in files:
            entry = tarfile.TarInfo(f"{base}/{path}")
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))
    return f"{base}.tar.gz"
