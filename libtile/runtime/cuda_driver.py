# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The CUDA driver's own library, called through ctypes: a device, its memory, modules and launches.

Nothing needs to be installed for it but the driver. `LIBTILE_CUDA_DRIVER` names another library to load in its place.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np

from libtile.support.environment import CUDA_DRIVER
from libtile.support.errors import LibtileError
from libtile.support.records import dataclass

TILE_IR_VERSION = 13010
"""The driver's CUDA version (1000 * major + 10 * minor) that loads the first Tile IR cubins."""

_MAJOR, _MINOR = 75, 76
"""The device attributes of the compute capability."""
_STACK_SIZE = 0
"""The context's limit on the stack of each thread."""

_POINTER, _NUMBER, _SIZE, _TEXT, _HANDLE = (
    ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_uint64
)  # fmt: skip
_UNSIGNED = ctypes.c_uint
_PROTOTYPES: dict[str, list[Any]] = {
    "cuInit": [_UNSIGNED],
    "cuDriverGetVersion": [_POINTER],
    "cuDeviceGetCount": [_POINTER],
    "cuDeviceGet": [_POINTER, _NUMBER],
    "cuDeviceGetName": [_TEXT, _NUMBER, _NUMBER],
    "cuDeviceGetAttribute": [_POINTER, _NUMBER, _NUMBER],
    "cuDevicePrimaryCtxGetState": [_NUMBER, _POINTER, _POINTER],
    "cuDevicePrimaryCtxRetain": [_POINTER, _NUMBER],
    "cuDevicePrimaryCtxRelease_v2": [_NUMBER],
    "cuDevicePrimaryCtxReset_v2": [_NUMBER],
    "cuCtxSetCurrent": [_POINTER],
    "cuCtxSetLimit": [_NUMBER, _SIZE],
    "cuCtxSynchronize": [],
    "cuMemAlloc_v2": [_POINTER, _SIZE],
    "cuMemFree_v2": [_HANDLE],
    "cuMemcpyHtoD_v2": [_HANDLE, _POINTER, _SIZE],
    "cuMemcpyDtoH_v2": [_POINTER, _HANDLE, _SIZE],
    "cuMemcpyDtoD_v2": [_HANDLE, _HANDLE, _SIZE],
    "cuModuleLoadData": [_POINTER, _TEXT],
    "cuModuleUnload": [_POINTER],
    "cuModuleGetFunction": [_POINTER, _POINTER, _TEXT],
    "cuEventCreate": [_POINTER, _UNSIGNED],
    "cuEventDestroy_v2": [_HANDLE],
    "cuEventElapsedTime": [_POINTER, _HANDLE, _HANDLE],
    "cuEventRecord": [_HANDLE, _POINTER],
    "cuEventSynchronize": [_HANDLE],
    "cuLaunchKernel": [_POINTER, *[_UNSIGNED] * 7, _POINTER, _POINTER, _POINTER],
}


class GpuUnavailableError(LibtileError):
    """There is no driver or no device; the message says which."""


class CudaError(LibtileError):
    """A call of the driver failed; `name` is the error's symbolic name."""

    def __init__(self, call: str, name: str, meaning: str = "") -> None:
        super().__init__(f"{call}: {name}" + (f" ({meaning})" if meaning else ""))
        self.call = call
        self.name = name


class Driver:
    """The driver's library. GpuUnavailableError when it cannot be loaded, or does not start."""

    def __init__(self, library: str | None = None) -> None:
        usual = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
        try:
            self._library = ctypes.CDLL(library or CUDA_DRIVER.text() or usual)
        except OSError as error:
            raise GpuUnavailableError(
                f"no CUDA driver: {error}; the backends interpreter and simulator need none"
            ) from None
        self.own_contexts: set[int] = set()
        """The devices whose primary context nobody had asked for before us, and nobody else is known to use."""
        try:
            self.call("cuInit", 0)
        except CudaError as error:
            raise GpuUnavailableError(f"the CUDA driver does not start: {error}") from None

    def call(self, name: str, *args: Any) -> None:
        """Call a function that gives a status. CudaError when that is not success."""
        try:
            function = getattr(self._library, name)
        except AttributeError:
            raise GpuUnavailableError(f"the CUDA driver has no {name}: it is too old, or none") from None
        function.argtypes, function.restype = _PROTOTYPES[name], _NUMBER
        status = function(*args)
        if status:
            raise CudaError(name.removesuffix("_v2"), *self._describe(status))

    def _describe(self, status: int) -> tuple[str, str]:
        texts = []
        for name in ("cuGetErrorName", "cuGetErrorString"):
            text = ctypes.c_char_p()
            function = getattr(self._library, name)
            function.argtypes, function.restype = [_NUMBER, _POINTER], _NUMBER
            known = function(status, ctypes.byref(text)) == 0 and text.value is not None
            texts.append(text.value.decode() if known and text.value is not None else "")
        return texts[0] or f"error {status}", texts[1]

    def number(self, name: str, *args: Any) -> int:
        """Call a function whose first parameter is where an int goes."""
        result = ctypes.c_int()
        self.call(name, ctypes.byref(result), *args)
        return result.value

    def handle(self, name: str, *args: Any) -> int:
        """Call a function whose first parameter is where a handle or an address goes."""
        result = ctypes.c_uint64()
        self.call(name, ctypes.byref(result), *args)
        return result.value


@lru_cache(maxsize=1)
def default_driver() -> Driver:
    """The machine's driver, loaded once."""
    return Driver()


@dataclass(frozen=True)
class FromAddress:
    """A parameter that is made of an address of device memory: where byte `offset` of an array lies, or a given one."""

    place: tuple[np.ndarray, int] | int
    make: Callable[[int], bytes]


@dataclass(frozen=True)
class AddressTable:
    """A parameter that is the address of a table of 64-bit words in device memory, some of which are addresses there:
    by their indices, an array and the byte offset into it."""

    words: np.ndarray
    places: dict[int, tuple[np.ndarray, int]]


Parameter = bytes | tuple[np.ndarray, int] | FromAddress | AddressTable
"""What `Device.launch` takes for a parameter."""


class Device:
    """A GPU, the first one without a number. A fault of a kernel poisons its context; `reset` makes a new one, which
    takes from others in the process all that they have there: `launch` does so only where there are none."""

    def __init__(self, number: int = 0, driver: Driver | None = None) -> None:
        self.driver = driver or default_driver()
        count = self.driver.number("cuDeviceGetCount")
        if count <= number:
            raise GpuUnavailableError(f"the CUDA driver sees {count or 'no'} device{'s' * (count != 1)}")
        self._device = self.driver.number("cuDeviceGet", number)
        attributes = (self.driver.number("cuDeviceGetAttribute", kind, self._device) for kind in (_MAJOR, _MINOR))
        major, minor = attributes
        self.capability = (major, minor)
        name = ctypes.create_string_buffer(256)
        self.driver.call("cuDeviceGetName", name, len(name), self._device)
        self.name = name.value.decode(errors="replace")
        self.driver_version = self.driver.number("cuDriverGetVersion")
        self._stack: int | None = None
        self._make_context()

    @property
    def arch(self) -> str:
        """The device's target, such as `sm_90`."""
        return "sm_{}{}".format(*self.capability)

    def runs(self, arch: str) -> bool:
        """Whether PTX for `arch` can be assembled for the device: not newer, and equal if it ends in `a` or `f`."""
        wanted, specific = _capability(arch)
        return wanted == self.capability if specific else wanted <= self.capability

    def loads(self, arch: str) -> bool:
        """Whether the device loads a cubin for `arch`: what it `runs`, of its own major version."""
        return self.runs(arch) and _capability(arch)[0][0] == self.capability[0]

    def _make_context(self) -> None:
        flags, active = ctypes.c_uint(), ctypes.c_int()
        self.driver.call("cuDevicePrimaryCtxGetState", self._device, ctypes.byref(flags), ctypes.byref(active))
        if not active.value:
            self.driver.own_contexts.add(self._device)
        context = self.driver.handle("cuDevicePrimaryCtxRetain", self._device)
        self.driver.call("cuCtxSetCurrent", context)
        if self._stack is not None:
            self.driver.call("cuCtxSetLimit", _STACK_SIZE, self._stack)

    def share(self) -> None:
        """From now on others in the process have memory in the context: nothing but `reset` itself makes it anew."""
        self.driver.own_contexts.discard(self._device)

    def set_stack(self, size: int) -> None:
        """The stack of each thread, in bytes."""
        self._stack = size
        self.driver.call("cuCtxSetLimit", _STACK_SIZE, size)

    def reset(self) -> None:
        """Throw the context away with all that is in it, and what a faulting kernel has left."""
        self.driver.call("cuDevicePrimaryCtxReset_v2", self._device)
        self.driver.call("cuDevicePrimaryCtxRelease_v2", self._device)
        self._make_context()

    def launch(
        self,
        cubin: bytes,
        entry: str,
        grid: Sequence[int],
        block: Sequence[int],
        parameters: Sequence[Parameter],
        *,
        dynamic_shared: int = 0,
        repeat: int = 0,
    ) -> float | None:
        """Load a cubin, run one kernel to its end, and copy memory back.

        With `repeat` it is launched so often again, and the shortest time between events around a launch is returned,
        in seconds; memory is what the first launch left.

        A parameter is its bytes, or an array and the byte offset of the address into it, or made of such an address, or
        a table that has some: each array is copied to the device once and back afterwards. CudaError for what fails, a
        fault of the kernel included: behind one the context is made anew, unless others use it.
        """
        driver = self.driver
        module = driver.handle("cuModuleLoadData", cubin)
        memory: dict[int, tuple[int, np.ndarray]] = {}

        def address_of(place: tuple[np.ndarray, int] | int) -> int:
            if isinstance(place, int):
                return place
            array, offset = place
            if id(array) not in memory:
                address = driver.handle("cuMemAlloc_v2", max(array.nbytes, 1))
                memory[id(array)] = address, array
                if array.nbytes:
                    driver.call("cuMemcpyHtoD_v2", address, array.ctypes.data, array.nbytes)
            return memory[id(array)][0] + offset

        def with_addresses(table: AddressTable) -> np.ndarray:
            words = np.array(table.words, np.int64)
            for index, place in table.places.items():
                words[index] = address_of(place)
            words.flags.writeable = False  # nothing comes back
            return words

        try:
            function = driver.handle("cuModuleGetFunction", module, entry.encode())
            holders = []
            for parameter in parameters:
                if isinstance(parameter, FromAddress):
                    parameter = parameter.make(address_of(parameter.place))
                elif isinstance(parameter, AddressTable):
                    parameter = address_of((with_addresses(parameter), 0)).to_bytes(8, "little")
                elif not isinstance(parameter, bytes):
                    parameter = address_of(parameter).to_bytes(8, "little")
                holders.append(ctypes.create_string_buffer(parameter, len(parameter)))
            addresses = (ctypes.c_void_p * max(len(holders), 1))(*map(ctypes.addressof, holders))
            driver.call("cuLaunchKernel", function, *grid, *block, dynamic_shared, None, addresses, None)
            driver.call("cuCtxSynchronize")
            for address, array in memory.values():
                if array.nbytes and array.flags.writeable:
                    driver.call("cuMemcpyDtoH_v2", array.ctypes.data, address, array.nbytes)

            def again() -> None:
                driver.call("cuLaunchKernel", function, *grid, *block, dynamic_shared, None, addresses, None)

            seconds = self._shortest(again, repeat) if repeat else None
        except CudaError:
            if self._is_usable():
                self._give_back(module, memory)
            elif self._device in driver.own_contexts:
                self.reset()
            raise
        self._give_back(module, memory)
        return seconds

    def _is_usable(self) -> bool:
        """Whether the context still takes work: what failed was no fault of a kernel."""
        try:
            self.driver.call("cuCtxSynchronize")
        except CudaError:
            return False
        return True

    def _give_back(self, module: int, memory: Mapping[int, tuple[int, np.ndarray]]) -> None:
        for address, _ in memory.values():
            self.driver.call("cuMemFree_v2", address)
        self.driver.call("cuModuleUnload", module)

    def _shortest(self, work: Callable[[], None], repeat: int) -> float:
        """The shortest of several times between events around some work, in seconds."""
        driver = self.driver
        begin, end = driver.handle("cuEventCreate", 0), driver.handle("cuEventCreate", 0)
        best = float("inf")
        for _ in range(repeat):
            driver.call("cuEventRecord", begin, None)
            work()
            driver.call("cuEventRecord", end, None)
            driver.call("cuEventSynchronize", end)
            milliseconds = ctypes.c_float()
            driver.call("cuEventElapsedTime", ctypes.byref(milliseconds), begin, end)
            best = min(best, milliseconds.value / 1000)
        driver.call("cuEventDestroy_v2", begin)
        driver.call("cuEventDestroy_v2", end)
        return best


def _capability(arch: str) -> tuple[tuple[int, int], bool]:
    """`sm_90a` as ((9, 0), True): the compute capability, and whether code for it runs there only."""
    digits = re.fullmatch(r"sm_(\d+)(\d)([af]?)", arch)
    if digits is None:
        raise LibtileError(f"'{arch}' is no architecture such as sm_90 or sm_90a")
    return (int(digits[1]), int(digits[2])), bool(digits[3])


@contextmanager
def captured_stdout() -> Iterator[list[str]]:
    """Catch file descriptor 1, where the driver prints; the text is in the list once the block has ended."""
    sys.stdout.flush()
    texts: list[str] = []
    with tempfile.TemporaryFile() as file:
        kept = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            yield texts
        finally:
            ctypes.CDLL(None).fflush(None)
            os.dup2(kept, 1)
            os.close(kept)
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
