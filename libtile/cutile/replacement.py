# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`ct.launch` itself on a machine with no GPU: what cuTile asks of a driver is answered here, for a while.

Functions are replaced in every module that has them, as `from cuda.tile import launch` copies one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any
from unittest import mock

from libtile.cutile import torch_on_host
from libtile.cutile.launching import DEFAULT_TARGET, Watcher, export, launch_made, newest_version, require_cutile
from libtile.cutile.refusals import RefusedType
from libtile.cutile.search import searching
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
    from cuda.tile import _compile as cutile_compiler
    from cuda.tile import kernel as kernel_type
    from cuda.tile._compile import default_tile_context, format_sm_arch

    def host_launch(
        stream: Any, grid: Any, kernel: Any, kernel_args: Sequence[Any], /, *,
        programmatic_dependent_launch: bool = False,
    ) -> None:  # fmt: skip
        if not isinstance(programmatic_dependent_launch, bool):
            raise RefusedType("expected argument programmatic_dependent_launch to have type bool")
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
        cutile_compiler._get_max_supported_bytecode_version: lambda temp_dir, allow_dev=False: newest_version(),
        **searching(gpu_name),
    }
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(kernel_type, "_compile", compile_kernel))
        for module, name, new in list(_occurrences(replaced)):
            stack.enter_context(mock.patch.object(module, name, new))
        torch = sys.modules.get("torch") or torch_on_host.found()
        if torch is not None:
            stack.enter_context(torch_on_host.on_host(torch, gpu_name, compute))
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
