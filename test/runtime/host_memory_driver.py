# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A driver for tests of bench/on_gpu.py whose memory is the host's."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

MULTIPROCESSORS = 3


class HostMemoryDriver(ABC):
    """Allocations, copies and events; what is loaded and what a launch does is for those who inherit."""

    def __init__(self) -> None:
        self.memory: dict[int, np.ndarray] = {}
        """The bytes of what is allocated, by address."""

    def number(self, name: str, *args: Any) -> int:
        import on_gpu

        assert (name, args[0]) == ("cuDeviceGetAttribute", on_gpu.MULTIPROCESSORS)
        return MULTIPROCESSORS

    def handle(self, name: str, *args: Any) -> int:
        if name == "cuMemAlloc_v2":
            made = np.zeros(args[0], np.uint8)
            self.memory[made.ctypes.data] = made
            return int(made.ctypes.data)
        if name == "cuModuleLoadData":
            self.load(args[0])
        if name == "cuModuleGetFunction":
            self.use(args[1].decode())
        return 7

    def call(self, name: str, *args: Any) -> None:
        match name:
            case "cuMemcpyHtoD_v2" | "cuMemcpyDtoH_v2" | "cuMemcpyDtoD_v2":
                ctypes.memmove(args[0], args[1], args[2])
            case "cuMemFree_v2":
                del self.memory[args[0]]
            case "cuEventElapsedTime":
                ctypes.cast(args[0], ctypes.POINTER(ctypes.c_float))[0] = 0.05
            case "cuLaunchKernel":
                self.launch_kernel(args[1:4], args[4:7], args[9])

    @abstractmethod
    def load(self, image: bytes) -> None:
        """A module is loaded."""

    @abstractmethod
    def use(self, name: str) -> None:
        """A kernel of the module is asked for."""

    @abstractmethod
    def launch_kernel(self, grid: Sequence[int], block: Sequence[int], parameters: Any) -> None:
        """A launch, with the addresses of its arguments."""
