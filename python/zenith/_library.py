"""The shared library: where it is, its errors, and calls that Ctrl-C can cancel."""

import ctypes
import ctypes.util
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any, Callable, List, Optional, Union

from . import _c

__version__ = "0.1.0"

PathLike = Union[str, "os.PathLike[str]"]
Progress = Callable[[float], Any]


class Error(Exception):
    """A failure of the library. The text is its sentence; `status` is its zn_status."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status

    def __str__(self) -> str:  # OSError and others would print more
        return str(self.args[0])


class Cancelled(Error):
    """A progress callback returned True."""


class NotFound(Error, FileNotFoundError):
    """There is no such file, model or tensor."""


class Invalid(Error, ValueError):
    """An argument is out of range, or shapes do not match."""


class InputOutput(Error, OSError):
    """The system refused a read or a write."""


class OutOfMemory(Error, MemoryError):
    """There is not enough memory, or less than the budget that was given."""


class Unsupported(Error, NotImplementedError):
    """Valid, but not supported by this build."""


_KINDS = {
    _c.ZN_ENOMEM: OutOfMemory,
    _c.ZN_EIO: InputOutput,
    _c.ZN_EUNSUPPORTED: Unsupported,
    _c.ZN_ESHAPE: Invalid,
    _c.ZN_EINVALID: Invalid,
    _c.ZN_ENOTFOUND: NotFound,
    _c.ZN_ECANCELLED: Cancelled,
}


_CARRIED = Path(__file__).parent / "lib"  # of a wheel


def _installed() -> List[str]:
    """Where `make install` puts the library; the system's loader finds it there after ldconfig only, or not at all."""
    prefixes = [Path(sys.prefix), Path(os.path.expanduser("~/.local")), Path("/usr/local")]
    places = ("lib*/libzenith.so.0", "lib/*-linux-*/libzenith.so.0")
    return [str(path) for prefix in prefixes for place in places for path in sorted(prefix.glob(place))]


def _candidates() -> List[str]:
    """Names to load, the first that works: $ZENITH_LIBRARY alone if set, else that of the wheel, else the system's."""
    given = os.environ.get("ZENITH_LIBRARY")
    if given:
        return [given]
    own = sorted(str(path) for path in _CARRIED.glob("libzenith.so*"))
    found = ctypes.util.find_library("zenith")
    return own + ["libzenith.so.0"] + ([found] if found else []) + _installed()


def _load_carried() -> None:
    """Loads what the wheel's library needs, so that the system's loader finds it there, each after what it needs."""
    pending = [str(path) for path in _CARRIED.glob("*.so*") if not path.name.startswith("libzenith")]
    for _ in range(len(pending)):
        failed = []
        for path in pending:
            try:
                ctypes.CDLL(path)
            except OSError:
                failed.append(path)
        pending = failed


def _load() -> ctypes.CDLL:
    problems = []
    for name in _candidates():
        try:
            if name.startswith(str(_CARRIED)):
                _load_carried()
            library = ctypes.CDLL(name)
        except OSError as error:
            problems.append(str(error))
            continue
        missing = [function for function in _c.FUNCTIONS if not hasattr(library, function)]
        if missing:
            raise ImportError(f"{name} is another version of libzenith: it has no {missing[0]}; install the Python "
                              "package and the library of one version")
        for function, (result, arguments) in _c.FUNCTIONS.items():
            getattr(library, function).restype = result
            getattr(library, function).argtypes = arguments
        version = library.zn_version().decode()
        if version.split(".")[:2] != __version__.split(".")[:2]:
            raise ImportError(f"{name} is version {version} of libzenith, but this package needs {__version__}")
        return library
    raise ImportError("libzenith was not found; install it (make install), install a wheel that contains it (make "
                      f"wheel), or set ZENITH_LIBRARY to its path ({'; '.join(problems)})")


lib = _load()


def version() -> str:
    """Version of the library."""
    return str(lib.zn_version().decode())


def failure(status: int) -> Error:
    """The exception for a failed call of this thread."""
    return _KINDS.get(status, Error)(lib.zn_error_text().decode(errors="replace"), status)


def check(status: int) -> None:
    """Raises the exception for a status that is not ZN_OK."""
    if status != _c.ZN_OK:
        raise failure(status)


def text(value: Optional[bytes]) -> str:
    return value.decode(errors="replace") if value else ""


def _whole(text: bytes) -> bytes:
    if b"\0" in text:  # where C would end it
        raise ValueError(f"{text!r} has a NUL")
    return text


def path_bytes(path: Optional[PathLike]) -> Optional[bytes]:
    return None if path is None else _whole(os.fsencode(path))


def text_bytes(value: Optional[str]) -> Optional[bytes]:
    return None if value is None else _whole(value.encode())


class Call:
    """One call that may take long. Its callbacks run on the calling thread, which holds the GIL only meanwhile.

        call = Call()
        options.progress = _c.zn_progress_fn(lambda user, fraction: call.visit(progress, fraction))
        call.run(lib.zn_encode, codec, image, out)

    An exception of a callback ends the call and is raised by `run`. So is KeyboardInterrupt: during the call Ctrl-C
    only sets a flag, because an exception could otherwise be raised where ctypes would lose it.
    """

    def __init__(self) -> None:
        self.error: Optional[BaseException] = None
        self.interrupted = False

    def visit(self, function: Optional[Callable[..., Any]], *arguments: Any) -> int:
        """Calls `function`, if any; returns what the library wants: non-zero to stop."""
        if self.interrupted or self.error is not None:
            return 1
        try:
            return int(function is not None and function(*arguments) is True)
        except BaseException as error:  # passed on by run
            self.error = error
            return 1

    def run(self, function: Callable[..., int], *arguments: Any) -> None:
        self.error, self.interrupted = None, False
        previous = signal.getsignal(signal.SIGINT)
        catching = threading.current_thread() is threading.main_thread() and callable(previous)

        def interrupt(number: int, frame: Optional[FrameType]) -> None:
            self.interrupted = True

        if catching:
            signal.signal(signal.SIGINT, interrupt)
        try:
            status = function(*arguments)
            problem = failure(status) if status != _c.ZN_OK else None
        finally:
            if catching:
                signal.signal(signal.SIGINT, previous)
        if self.interrupted and callable(previous):
            previous(signal.SIGINT, None)  # raises KeyboardInterrupt, unless the program has replaced it
        if self.error is not None:
            raise self.error
        if problem is not None:
            raise problem


class Handle:
    """Something the library made, freed by close(), by `with`, or with the object. Calls on one handle take turns."""

    def __init__(self, pointer: Any, free: Callable[[Any], None]) -> None:
        self._pointer = pointer
        self._free = free
        self._lock = threading.RLock()

    @property
    def pointer(self) -> Any:
        if not self._pointer:
            raise ValueError("the object is closed")
        return self._pointer

    def close(self) -> None:
        with self._lock:
            pointer, self._pointer = self._pointer, None
            if pointer:
                self._free(pointer)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_pointer", None):
            self.close()
