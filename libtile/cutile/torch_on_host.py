# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""torch on a machine with no GPU: its CPU stands for its CUDA devices.

What asks for a CUDA device gets the CPU's, streams do nothing, as what was launched has ended, events tell the time
that passed here, and what a program reads off the device are the numbers of the target that cuTile believes to be
there.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import wraps
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from unittest import mock

from libtile.targets import machine, target


def found() -> Any:
    """The module torch, or None where it is not installed."""
    try:
        import torch
    except ImportError:
        return None
    return torch


class _Stream:
    """A stream that there is nothing to wait for."""

    cuda_stream = 0
    device = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def _nothing(self, *args: Any, **kwargs: Any) -> None:
        return None

    synchronize = wait_stream = wait_event = wait = record_stream = _nothing

    def record_event(self, event: Any = None) -> Any:
        event = event or _Event()
        event.record(self)
        return event

    def query(self) -> bool:
        return True


class _Event(_Stream):
    """An event, recorded when it is asked for: the work before it has been done by then."""

    at: float | None = None

    def record(self, stream: Any = None) -> None:
        self.at = time.perf_counter()

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds on the host. RuntimeError, as torch's own, where one of both was not recorded."""
        if self.at is None or end_event.at is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return (end_event.at - self.at) * 1000


_MEMORY = 16 << 30
"""Bytes that a device is said to have: nothing allocates on it."""


def device_properties(gpu_name: str, compute: tuple[int, int]) -> SimpleNamespace:
    """What torch reads off a device, for a target. Its multiprocessors are those of the GPU that stands for the target
    in estimates: UnknownTargetError where none does, as programs choose grids by their number."""
    limits = target(gpu_name)
    return SimpleNamespace(
        name="the host",
        major=compute[0],
        minor=compute[1],
        multi_processor_count=machine(gpu_name).sms,
        total_memory=_MEMORY,
        warp_size=limits.warp_size,
        max_threads_per_block=limits.threads_per_block,
        max_threads_per_multi_processor=limits.warps_per_sm * limits.warp_size,
        regs_per_multiprocessor=limits.registers_per_sm,
        shared_memory_per_block=48 << 10,
        shared_memory_per_block_optin=limits.shared_per_block,
        shared_memory_per_multiprocessor=limits.shared_per_sm,
        is_integrated=0,
        is_multi_gpu_board=0,
    )


@contextmanager
def on_host(torch: Any, gpu_name: str, compute: tuple[int, int]) -> Iterator[None]:
    """Within, the CPU stands for a CUDA device of a target and its compute capability."""
    from torch.overrides import TorchFunctionMode

    if torch.cuda.is_available():  # there is a GPU, and its tensors stay where they are
        yield
        return

    def on_cpu(value: Any) -> Any:
        """A device of CUDA as the CPU; anything else as it is."""
        if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
            return "cpu"
        return torch.device("cpu") if isinstance(value, torch.device) and value.type == "cuda" else value

    products = (torch.mm, torch.bmm, torch.addmm, torch.baddbmm)

    class OnHost(TorchFunctionMode):
        """Every function of torch gets the CPU where it was given a CUDA device.

        Products whose results are wider than their operands (`out_dtype`), which torch has for CUDA alone, are those of
        wider operands: exact but for the order of sums, as CUDA's are."""

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function is torch.Tensor.cuda:
                return args[0]
            given = {key: on_cpu(value) for key, value in (kwargs or {}).items()}
            given.pop("pin_memory", None)
            if function in products and (wide := given.pop("out_dtype", None)) is not None:
                args = [x.to(wide) if isinstance(x, torch.Tensor) else x for x in args]
            return function(*map(on_cpu, args), **given)

    def seed(number: int) -> None:
        """Not by torch.manual_seed, which seeds CUDA's generators by these functions."""
        torch.default_generator.manual_seed(number)

    def properties(device: Any = None) -> SimpleNamespace:
        return device_properties(gpu_name, compute)

    attention = import_module("torch.nn.attention")

    @wraps(attention.sdpa_kernel)  # torch's own compiler, imported later, asks what the function wraps
    def any_kernel(*chosen: Any, **options: Any) -> AbstractContextManager[None]:
        """The choice among CUDA's kernels of attention, of which the CPU has none."""
        return nullcontext()

    stream = _Stream()
    fixed: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "synchronize": lambda device=None: None,
        "empty_cache": lambda: None,
        "current_stream": lambda device=None: stream,
        "default_stream": lambda device=None: stream,
        "get_device_capability": lambda device=None: compute,
        "get_device_name": lambda device=None: "the host",
        "get_device_properties": properties,
        "mem_get_info": lambda device=None: (_MEMORY, _MEMORY),
        "memory_allocated": lambda device=None: 0,
        "max_memory_allocated": lambda device=None: 0,
        "memory_stats": lambda device=None: Counter(),
        "reset_peak_memory_stats": lambda device=None: None,
        "manual_seed": seed,
        "manual_seed_all": seed,
        "device": _Stream,
        "Stream": _Stream,
        "Event": _Event,
        "stream": lambda given: given if given is not None else stream,
        "is_bf16_supported": lambda including_emulation=True: True,
    }
    with ExitStack() as stack:
        for name, value in fixed.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, value))
        stack.enter_context(mock.patch.object(attention, "sdpa_kernel", any_kernel))
        stack.enter_context(mock.patch.object(torch.Tensor, "is_cuda", property(lambda self: True)))
        stack.enter_context(OnHost())
        yield
