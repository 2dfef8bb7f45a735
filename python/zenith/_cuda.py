"""Memory of CUDA devices, read and written through NVIDIA's driver: the library itself takes images and latents from the
CPU's memory, and puts them there."""

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
        cuda.cuMemcpyHtoD_v2.argtypes = [c_uint64, c_void_p, c_size_t]
        cuda.cuMemAlloc_v2.argtypes = [POINTER(c_uint64), c_size_t]
        cuda.cuMemFree_v2.argtypes = [c_uint64]
        cuda.cuGetErrorString.argtypes = [c_int, POINTER(c_char_p)]
        _libcuda = cuda
    return _libcuda


def _check(cuda: Any, status: int, what: str) -> None:
    if status:
        text = c_char_p()
        cuda.cuGetErrorString(status, byref(text))
        reason = text.value.decode() if text.value else f"error {status}"
        raise RuntimeError(f"{what}: {reason}")


class _Context:
    """The primary context of a device, which PyTorch and others use too; the calling thread's own within `with`."""

    def __init__(self, device: int, doing: str) -> None:
        self.cuda, self.device, self.doing = _driver(), device, doing
        self.number, self.context = c_int(), c_void_p()
        self.check(self.cuda.cuInit(0), "cuInit")
        self.check(self.cuda.cuDeviceGet(byref(self.number), device), f"device {device}")
        self.check(self.cuda.cuDevicePrimaryCtxRetain(byref(self.context), self.number), f"device {device}")

    def check(self, status: int, what: str) -> None:
        _check(self.cuda, status, f"{self.doing}: {what}")

    def __enter__(self) -> Any:
        self.check(self.cuda.cuCtxPushCurrent_v2(self.context), f"device {self.device}")
        return self.cuda

    def __exit__(self, *_: Any) -> None:
        self.cuda.cuCtxPopCurrent_v2(byref(c_void_p()))

    def release(self) -> None:
        self.cuda.cuDevicePrimaryCtxRelease_v2(self.number)


def read(address: int, size: int, device: int) -> "ctypes.Array[Any]":
    """A copy of `size` bytes at an address of a CUDA device. It follows what was enqueued on the legacy default stream."""
    try:
        context = _Context(device, "a tensor on a CUDA device cannot be read")
    except OSError as error:
        raise ValueError(f"the tensor lies on a CUDA device, and the driver cannot be opened ({error}); "
                         "copy it to the CPU first") from None
    bytes_read = (ctypes.c_char * size)()
    try:
        with context as cuda:
            context.check(cuda.cuMemcpyDtoH_v2(ctypes.addressof(bytes_read), address, size), f"{size} bytes")
    finally:
        context.release()
    return bytes_read


class Copy:
    """A copy of `size` bytes of the CPU's memory on a CUDA device, complete for every stream; freed with this object."""

    def __init__(self, address: int, size: int, device: int) -> None:
        self.device, self.address = device, 0
        try:
            self.context = _Context(device, "a tensor cannot be copied to a CUDA device")
        except OSError as error:
            raise BufferError(f"results lie in the CPU's memory, and the driver of CUDA cannot be opened ({error})") from None
        to = c_uint64()
        try:
            with self.context as cuda:
                self.context.check(cuda.cuMemAlloc_v2(byref(to), max(size, 1)), f"{size} bytes")
                self.address = to.value
                self.context.check(cuda.cuMemcpyHtoD_v2(self.address, address, size), f"{size} bytes")
                self.context.check(cuda.cuCtxSynchronize(), f"{size} bytes")  # the copy may still be on its way
        except RuntimeError:
            self.free()
            raise

    def free(self) -> None:
        if self.address:
            with self.context as cuda:
                cuda.cuMemFree_v2(self.address)
        self.address = 0
        self.context.release()

    def __del__(self) -> None:
        if self.address:
            self.free()
