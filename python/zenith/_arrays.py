"""Arrays without copies, and without NumPy: the buffer protocol, NumPy's array interface, and DLPack."""

import ctypes
import sys
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_ssize_t, c_void_p
from ctypes import c_uint8, c_uint16, c_uint64
from typing import Any, Dict, List, Optional, Tuple

from . import _cuda

# ---- what CPython and DLPack define ----


class _Buffer(Structure):
    """Py_buffer"""

    _fields_ = [("buf", c_void_p), ("obj", c_void_p), ("len", c_ssize_t), ("itemsize", c_ssize_t), ("readonly", c_int),
                ("ndim", c_int), ("format", c_char_p), ("shape", POINTER(c_ssize_t)), ("strides", POINTER(c_ssize_t)),
                ("suboffsets", POINTER(c_ssize_t)), ("internal", c_void_p)]


_FULL_READ_ONLY = 0x11C  # PyBUF_FULL_RO: any strides, with the format
_api = ctypes.pythonapi
_api.PyObject_GetBuffer.argtypes = [ctypes.py_object, POINTER(_Buffer), c_int]
_api.PyBuffer_Release.argtypes = [POINTER(_Buffer)]
_api.PyBuffer_Release.restype = None
_api.PyMemoryView_FromBuffer.argtypes = [POINTER(_Buffer)]
_api.PyMemoryView_FromBuffer.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [c_void_p, c_char_p, c_void_p]
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, c_char_p]
_api.PyCapsule_GetPointer.restype = c_void_p


class _DLTensor(Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32),
                ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class _DLManagedTensor(Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, POINTER(_DLManagedTensor))
_DLManagedTensor._fields_ = [("tensor", _DLTensor), ("context", c_void_p), ("deleter", _Deleter)]
_NAME = b"dltensor"
_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13
_DLPACK_FORMATS = {(0, 8): "b", (0, 16): "h", (0, 32): "i", (0, 64): "q", (1, 8): "B", (1, 16): "H", (1, 32): "I",
                   (1, 64): "Q", (2, 16): "e", (2, 32): "f", (2, 64): "d", (4, 16): "bfloat16", (6, 8): "?"}
_DLPACK_TYPES = {"f": (2, 32), "B": (1, 8), "H": (1, 16)}
_SIZES = {"f": 4, "B": 1, "H": 2}
_LITTLE = sys.byteorder == "little"

# ---- arrays of others ----


class View:
    """Memory of another object, as it lies there. The object is kept alive, and its buffer held, by `owner`."""

    def __init__(self, address: int, kind: str, shape: Tuple[int, ...], strides: Tuple[int, ...], owner: Any) -> None:
        self.address, self.kind, self.shape, self.strides, self.owner = address, kind, shape, strides, owner

    def is_contiguous(self) -> bool:
        """Rows after each other, without gaps."""
        expected = _SIZES[self.kind]
        for size, stride in zip(reversed(self.shape), reversed(self.strides)):
            if size != 1 and stride != expected:
                return False
            expected *= size
        return True

    def reordered(self, axes: Tuple[int, ...]) -> "View":
        """The same memory with its axes in another order."""
        return View(self.address, self.kind, tuple(self.shape[a] for a in axes), tuple(self.strides[a] for a in axes),
                    self.owner)

    def contiguous(self) -> "View":
        """Itself, or a copy if it is not contiguous."""
        if self.is_contiguous():
            return self
        n = len(self.shape)
        sizes, steps = (c_ssize_t * n)(*self.shape), (c_ssize_t * n)(*self.strides)
        count = _SIZES[self.kind]
        for size in self.shape:
            count *= size
        buffer = _Buffer(buf=self.address, len=count, itemsize=_SIZES[self.kind], readonly=1, ndim=n,
                         format=self.kind.encode(), shape=sizes, strides=steps)
        packed = _api.PyMemoryView_FromBuffer(ctypes.byref(buffer)).tobytes()
        return of_bytes(packed, self.kind, self.shape)


class _Held:
    """A buffer of an object, released with this."""

    def __init__(self, source: Any) -> None:
        self.buffer = _Buffer()
        _api.PyObject_GetBuffer(source, ctypes.byref(self.buffer), _FULL_READ_ONLY)

    def __del__(self) -> None:
        if self.buffer.obj:
            _api.PyBuffer_Release(ctypes.byref(self.buffer))


def _strides_of(shape: Tuple[int, ...], size: int) -> Tuple[int, ...]:
    strides: List[int] = []
    for side in reversed(shape):
        strides.insert(0, size)
        size *= side
    return tuple(strides)


def of_bytes(data: Any, kind: str, shape: Tuple[int, ...]) -> View:
    """A contiguous array in the memory of a bytes-like object."""
    held = _Held(data)
    return View(held.buffer.buf or 0, kind, shape, _strides_of(shape, _SIZES[kind]), (held, data))


def _native(kind: str) -> str:
    """A format without its byte order where that is the machine's."""
    return kind[1:] if kind[:1] in ("@", "=", "|", "<" if _LITTLE else ">") else kind


def _of_buffer(source: Any) -> View:
    held = _Held(source)
    b = held.buffer
    kind = _native((b.format or b"B").decode())
    shape = tuple(b.shape[i] for i in range(b.ndim))
    strides = tuple(b.strides[i] for i in range(b.ndim)) if b.strides else _strides_of(shape, b.itemsize)
    return View(b.buf or 0, kind, shape, strides, held)


def _capsule_of(source: Any, device: int) -> Any:
    """The tensor as a capsule. That of a GPU is complete as far as the legacy default stream can see, on which it is read."""
    if device in (_CPU, _CUDA_HOST):
        return source.__dlpack__()
    try:
        return source.__dlpack__(stream=1)
    except TypeError:  # from before DLPack had streams
        return source.__dlpack__()


def _of_dlpack(source: Any) -> View:
    device = int(source.__dlpack_device__()[0])
    if getattr(source, "requires_grad", False):
        source = source.detach()
    if device not in (_CPU, _CUDA_HOST) and hasattr(source, "cpu"):  # PyTorch's own copy, on the stream of its work
        source, device = source.cpu(), _CPU
    if device not in (_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED):
        raise ValueError("the tensor lies on a device whose memory cannot be read here; copy it to the CPU first")
    capsule = _capsule_of(source, device)
    t = ctypes.cast(_api.PyCapsule_GetPointer(capsule, _NAME), POINTER(_DLManagedTensor)).contents.tensor
    kind = _DLPACK_FORMATS.get((t.code, t.bits), f"of DLPack code {t.code}, {t.bits} bits")
    shape = tuple(t.shape[i] for i in range(t.ndim))
    size = t.bits // 8
    strides = tuple(t.strides[i] * size for i in range(t.ndim)) if t.strides else _strides_of(shape, size)
    address = (t.data or 0) + t.byte_offset
    if device in (_CUDA, _CUDA_MANAGED):
        extent = 0 if 0 in shape else size + sum((n - 1) * stride for n, stride in zip(shape, strides))
        copy = _cuda.read(address, extent, t.device_id)
        return View(ctypes.addressof(copy), kind, shape, strides, copy)
    # The capsule is not consumed: it frees the tensor when it goes.
    return View(address, kind, shape, strides, (capsule, source))


_TYPESTRINGS = {"u1": "B", "u2": "H", "f4": "f", "f2": "e", "f8": "d", "b1": "?"}


def _of_interface(source: Any) -> View:
    interface: Dict[str, Any] = source.__array_interface__
    kind = _native(interface["typestr"])
    kind = _TYPESTRINGS.get(kind, kind)
    shape, data = tuple(interface["shape"]), interface.get("data")
    if isinstance(data, tuple):
        strides = interface.get("strides") or _strides_of(shape, _SIZES.get(kind, 1))
        return View(data[0], kind, shape, tuple(strides), (source, interface))
    if kind not in _SIZES:
        raise TypeError(f"numbers of type {kind} are not supported")
    return of_bytes(data, kind, shape)


def view_of(source: Any) -> View:
    """The memory of an array: of NumPy, PyTorch, Pillow, or anything else that shows it."""
    if isinstance(source, View):
        return source
    if isinstance(source, Memory):
        return source.view()
    try:
        return _of_buffer(source)
    except (TypeError, BufferError, ValueError):
        pass
    if hasattr(source, "__dlpack__"):
        return _of_dlpack(source)
    if hasattr(source, "__array_interface__"):
        return _of_interface(source)
    raise TypeError(f"an array is needed (NumPy, PyTorch, Pillow, or a buffer), not {type(source).__name__}")


# ---- our arrays, for others ----

_exported: Dict[int, Any] = {}  # by the address of the managed tensor: what must live as long as it


@_Deleter
def _delete(managed: Any) -> None:
    _exported.pop(ctypes.addressof(managed.contents), None)


# A capsule that is being freed must not be referenced again, so these two take its address.
_capsule_is_valid = _api["PyCapsule_IsValid"]
_capsule_is_valid.argtypes = [c_void_p, c_char_p]
_capsule_pointer = _api["PyCapsule_GetPointer"]
_capsule_pointer.argtypes, _capsule_pointer.restype = [c_void_p, c_char_p], c_void_p


@ctypes.PYFUNCTYPE(None, c_void_p)
def _drop_capsule(capsule: int) -> None:
    """Frees a tensor that nobody took from its capsule."""
    if _capsule_is_valid(capsule, _NAME):
        _exported.pop(_capsule_pointer(capsule, _NAME), None)


def _capsule(address: int, device: Tuple[int, int], owner: Any) -> Any:
    """A DLPack tensor at this address, with the shape of `owner`, which lives as long as the tensor."""
    n, size = len(owner._shape), _SIZES[owner._kind]
    code, bits = _DLPACK_TYPES[owner._kind]
    shape, strides = (c_int64 * n)(*owner._shape), (c_int64 * n)(*(s // size for s in owner._strides))
    tensor = _DLTensor(address, device[0], device[1], n, code, bits, 1, shape, strides, 0)
    managed = _DLManagedTensor(tensor, None, _delete)
    key = ctypes.addressof(managed)
    _exported[key] = (managed, shape, strides, owner)
    return _api.PyCapsule_New(key, _NAME, ctypes.cast(_drop_capsule, c_void_p))


class Memory:
    """Memory that NumPy (np.asarray), PyTorch (torch.from_dlpack) and memoryview show without a copy.

    `_owner` frees it; views keep this object alive.
    """

    _address: int
    _kind: str
    _shape: Tuple[int, ...]
    _strides: Tuple[int, ...]

    def _show(self, address: int, kind: str, shape: Tuple[int, ...], strides: Optional[Tuple[int, ...]] = None) -> None:
        self._address, self._kind, self._shape = address, kind, shape
        self._strides = strides or _strides_of(shape, _SIZES[kind])

    @property
    def shape(self) -> Tuple[int, ...]:
        return self._shape

    def view(self) -> View:
        return View(self._address, self._kind, self._shape, self._strides, self)

    def tobytes(self) -> bytes:
        """A copy of the values, rows after each other."""
        view = self.view().contiguous()
        size = _SIZES[self._kind]
        for side in self._shape:
            size *= side
        return ctypes.string_at(view.address, size)

    @property
    def __array_interface__(self) -> Dict[str, Any]:
        kinds = {"f": "f4", "B": "u1", "H": "u2"}
        order = "|" if self._kind == "B" else "<" if _LITTLE else ">"
        return {"version": 3, "shape": self._shape, "typestr": order + kinds[self._kind],
                "data": (self._address, False), "strides": self._strides}

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (_CPU, 0)

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
                   copy: Any = None) -> Any:
        if dl_device is not None and int(dl_device[0]) == _CUDA:
            return self.cuda(int(dl_device[1])).__dlpack__()
        if dl_device is not None and int(dl_device[0]) != _CPU:
            raise BufferError("results lie in the CPU's memory; take them there, then copy them to the device")
        return _capsule(self._address, (_CPU, 0), self)

    def cuda(self, device: int = 0) -> "OnCuda":
        """A copy on a CUDA device, for torch.from_dlpack, cupy.from_dlpack and others."""
        return OnCuda(self, device)

    def __buffer__(self, flags: int) -> memoryview:
        """The buffer protocol, from Python 3.12 on."""
        types = {"f": ctypes.c_float, "B": c_uint8, "H": c_uint16}
        if not self.view().is_contiguous():
            raise BufferError("the axes are not in the order of the memory; use np.asarray")
        kind: Any = types[self._kind]
        for side in reversed(self._shape):
            kind = kind * side
        shown: Any = type("Shown", (kind,), {})
        array = shown.from_address(self._address)
        array.owner = self
        return memoryview(array)


class OnCuda:
    """A copy of a result in the memory of a CUDA device. Tensors that are made of it keep it alive."""

    def __init__(self, source: Memory, device: int) -> None:
        size = _SIZES[source._kind]
        extent = 0 if 0 in source._shape else size + sum((n - 1) * s for n, s in zip(source._shape, source._strides))
        self._copy = _cuda.Copy(source._address, extent, device)
        self._kind, self._shape, self._strides = source._kind, source._shape, source._strides

    @property
    def shape(self) -> Tuple[int, ...]:
        return self._shape

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (_CUDA, self._copy.device)

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
                   copy: Any = None) -> Any:
        if dl_device is not None and tuple(map(int, dl_device)) != self.__dlpack_device__():
            raise BufferError("the copy lies on another device")
        return _capsule(self._copy.address, self.__dlpack_device__(), self)


class Array(Memory):
    """Numbers that the library computed: float32."""

    def __init__(self, shape: Tuple[int, ...]) -> None:
        count = 1
        for side in shape:
            count *= side
        self.data = (ctypes.c_float * count)()
        self._show(ctypes.addressof(self.data), "f", shape)

    def __len__(self) -> int:
        return self._shape[0]

    def __repr__(self) -> str:
        return f"<zenith.Array {'x'.join(map(str, self._shape))} float32>"


def floats(source: Any, count: int, what: str) -> Any:
    """The memory of `count` float32 numbers as a pointer for the library, and what keeps it alive."""
    view = view_of(source)
    if view.kind != "f":
        raise TypeError(f"{what} must be float32, not of format '{view.kind}'")
    view = view.contiguous()
    total = 1
    for side in view.shape:
        total *= side
    if total != count:
        raise ValueError(f"{what} must have {count} numbers, not {total}")
    return ctypes.cast(view.address, POINTER(ctypes.c_float)), view
