"""Memory of CUDA devices, read through NVIDIA's driver: the library itself takes images and latents from the CPU's memory."""

import ctypes
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint64, c_void_p
from typing import Any

_libcuda: Any = None


def _driver() -> Any:
    """libcuda, ready for calls; OSError where there is none."""
    global _libcuda
    if _libcuda is None:
        cuda = ctypes.CDLL("libcuda.so.1")
        cuda.cuDevicePrimaryCtxRetain.argtypes = [POINTER(c_void_p), c_int]
        cuda.cuDevicePrimaryCtxRelease_v2.argtypes = [c_int]
        cuda.cuCtxPushCurrent_v2.argtypes = [c_void_p]
        cuda.cuCtxPopCurrent_v2.argtypes = [POINTER(c_void_p)]
        cuda.cuMemcpyDtoH_v2.argtypes = [c_void_p, c_uint64, c_size_t]
        cuda.cuGetErrorString.argtypes = [c_int, POINTER(c_char_p)]
        _libcuda = cuda
    return _libcuda


def _check(cuda: Any, status: int, what: str) -> None:
    if status:
        text = c_char_p()
        cuda.cuGetErrorString(status, byref(text))
        reason = text.value.decode() if text.value else f"error {status}"
        raise RuntimeError(f"a tensor on a CUDA device cannot be read: {what}: {reason}")


def read(address: int, size: int, device: int) -> "ctypes.Array[Any]":
    """A copy of `size` bytes at an address of a CUDA device. It follows what was enqueued on the legacy default stream."""
    try:
        cuda = _driver()
    except OSError as error:
        raise ValueError(f"the tensor lies on a CUDA device, and the driver cannot be opened ({error}); "
                         "copy it to the CPU first") from None
    number, context, old = c_int(), c_void_p(), c_void_p()
    bytes_read = (ctypes.c_char * size)()
    _check(cuda, cuda.cuInit(0), "cuInit")
    _check(cuda, cuda.cuDeviceGet(byref(number), device), f"device {device}")
    _check(cuda, cuda.cuDevicePrimaryCtxRetain(byref(context), number), f"device {device}")
    try:
        _check(cuda, cuda.cuCtxPushCurrent_v2(context), f"device {device}")
        try:
            _check(cuda, cuda.cuMemcpyDtoH_v2(ctypes.addressof(bytes_read), address, size), f"{size} bytes")
        finally:
            cuda.cuCtxPopCurrent_v2(byref(old))
    finally:
        cuda.cuDevicePrimaryCtxRelease_v2(number)
    return bytes_read
