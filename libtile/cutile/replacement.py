# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`ct.launch` itself on a machine with no GPU: what cuTile asks of a driver is answered here, for a while.

Functions are replaced in every module that has them, as `from cuda.tile import launch` copies one. With torch, its CPU
stands for CUDA: what asks for a CUDA device gets the CPU's, and streams and events do nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from importlib import import_module
from types import ModuleType
from typing import Any
from unittest import mock

from libtile.cutile.launching import DEFAULT_TARGET, Watcher, export, launch_made, require_cutile
from libtile.cutile.signature import read_arguments
from libtile.support.signatures import checked
from libtile.targets import target


@checked
@contextmanager
def on_host(
    backend: str = "interpreter",
    gpu_name: str = DEFAULT_TARGET,
    *,
    check: str | None = None,
    watch: Watcher | None = None,
) -> Iterator[None]:
    """Within, `ct.launch` runs kernels by `cutile.launch` on a backend, with CPU torch tensors in place of CUDA's.

    `gpu_name` is the GPU that cuTile believes to be there. Streams are not looked at: a launch has ended when it
    returns. `watch` is told of each launch before it runs. LibtileError without cuTile, or for a target that there is
    not.
    """
    require_cutile()
    compute = _compute_capability(gpu_name)
    from cuda.tile import _cext
    from cuda.tile import kernel as kernel_type
    from cuda.tile._compile import default_tile_context, format_sm_arch

    def host_launch(
        stream: Any, grid: Any, kernel: Any, kernel_args: Sequence[Any], /, *,
        programmatic_dependent_launch: bool = False,
    ) -> None:  # fmt: skip
        if not isinstance(programmatic_dependent_launch, bool):
            raise TypeError("expected argument programmatic_dependent_launch to have type bool")
        launch_made(kernel, grid, kernel_args, made_by, backend=backend, gpu_name=gpu_name, check=check, watch=watch)

    def compile_kernel(
        kernel: Any, signature: Any, context: Any, compute_capability: tuple[int, int] | None = None
    ) -> tuple[bytes, str, None, tuple[()]]:
        """cuTile's own step from a kernel to what a launch needs, with bytecode in place of a cubin."""
        name = gpu_name if compute_capability in (None, compute) else format_sm_arch(*compute_capability)
        return export(kernel, signature, name), str(signature.symbol), None, ()

    def made_by(kernel: Any, signature: Any) -> bytes:
        # By the method, as cuTile's launcher does: projects watch or replace it.
        return bytes(kernel._compile(signature, default_tile_context, compute)[0])

    def constraints(kernel: Any, args: tuple[Any, ...], convention: Any, /) -> tuple[Any, ...]:
        return read_arguments(kernel, args, shapes=convention.version >= 2).constraints

    replaced: dict[Callable[..., Any], Callable[..., Any]] = {
        _cext.launch: host_launch,
        _cext.get_compute_capability: lambda device_id=0: compute,
        _cext.get_parameter_constraints_from_pyargs: constraints,
        _cext._get_max_grid_size: lambda device_id: ((1 << 31) - 1, (1 << 16) - 1, (1 << 16) - 1),
        _cext._synchronize_context: lambda: None,
    }
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(kernel_type, "_compile", compile_kernel))
        for module, name, new in list(_occurrences(replaced)):
            stack.enter_context(mock.patch.object(module, name, new))
        torch = sys.modules.get("torch") or _torch()
        if torch is not None:
            stack.enter_context(_torch_on_host(torch, compute))
        yield


def _occurrences(replaced: dict[Callable[..., Any], Callable[..., Any]]) -> Iterator[tuple[ModuleType, str, Any]]:
    """Where the functions stand in the modules that are loaded."""
    by_identity = {id(old): new for old, new in replaced.items()}
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType):
            for name, value in list(vars(module).items()):
                if id(value) in by_identity:
                    yield module, name, by_identity[id(value)]


def _compute_capability(gpu_name: str) -> tuple[int, int]:
    number = target(gpu_name).name.removeprefix("sm_").rstrip("af")
    return int(number[:-1]), int(number[-1])


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        return None
    return torch


class _Stream:
    """A stream or an event that there is nothing to wait for."""

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

    synchronize = wait_stream = wait_event = record = wait = record_stream = _nothing

    def record_event(self, event: Any = None) -> Any:
        return event or _Stream()

    def query(self) -> bool:
        return True

    def elapsed_time(self, other: Any) -> float:
        return 0.0


@contextmanager
def _torch_on_host(torch: Any, compute: tuple[int, int]) -> Iterator[None]:
    """torch, whose CPU stands for its CUDA devices."""
    from torch.overrides import TorchFunctionMode

    if torch.cuda.is_available():  # there is a GPU, and its tensors stay where they are
        yield
        return

    def on_cpu(value: Any) -> Any:
        """A device of CUDA as the CPU; anything else as it is."""
        if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
            return "cpu"
        return torch.device("cpu") if isinstance(value, torch.device) and value.type == "cuda" else value

    class OnHost(TorchFunctionMode):
        """Every function of torch gets the CPU where it was given a CUDA device."""

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function is torch.Tensor.cuda:
                return args[0]
            given = {key: on_cpu(value) for key, value in (kwargs or {}).items()}
            given.pop("pin_memory", None)
            return function(*map(on_cpu, args), **given)

    def seed(number: int) -> None:
        """Not by torch.manual_seed, which seeds CUDA's generators by these functions."""
        torch.default_generator.manual_seed(number)

    def any_kernel(*chosen: Any, **options: Any) -> AbstractContextManager[None]:
        """The choice among CUDA's kernels of attention, of which the CPU has none."""
        return nullcontext()

    attention = import_module("torch.nn.attention")
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
        "manual_seed": seed,
        "manual_seed_all": seed,
        "device": _Stream,
        "Stream": _Stream,
        "Event": _Stream,
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
