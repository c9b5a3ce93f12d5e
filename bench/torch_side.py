# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `on_gpu.py` compares with where there is torch: its results, and its times and Triton's on arrays of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

if TYPE_CHECKING:
    from on_gpu import Launch, Runner

TORCH, FLASH, CUDNN, TRITON = "torch", "flash", "cudnn", "triton"


class Beside:
    """Torch, and Triton where it can be imported."""

    def __init__(self) -> None:
        if not torch.cuda.is_available():
            raise ImportError("torch sees no GPU")
        try:
            import triton_side
        except ImportError:
            self.triton: Any = None
        else:
            self.triton = triton_side
        self.names = [TORCH, FLASH, CUDNN, *([TRITON] if self.triton else [])]

    def difference(self, launch: Launch, given: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> float:
        """The largest difference of results from torch's, over the largest of torch's."""
        arrays = [_tensor(array, a.dtype) for array, a in zip(given, launch.arrays)]
        wanted = compute(launch.operation, arrays, exact=True).float()
        (written,) = (a for a in launch.arrays if a.written)
        got = _tensor(results[0], written.dtype).float()
        return float((got - wanted).abs().max() / wanted.abs().max().clamp(min=1e-30))

    def times(self, launch: Launch, runner: Runner) -> dict[str, float]:
        """Seconds by who; who cannot is left out."""
        from on_gpu import MOST_COPIES, ROTATED_BYTES, contents

        copies = max(1, min(MOST_COPIES, -(-ROTATED_BYTES // max(launch.bytes, 1))))
        held = contents(launch)
        sets = [[_tensor(array, a.dtype) for array, a in zip(held, launch.arrays)] for _ in range(copies)]
        found = {}
        for who, work in self._works(launch).items():
            try:
                with torch.cuda.stream(torch.cuda.default_stream()):
                    found[who] = runner.time([_bound(work, arrays) for arrays in sets])
            except (RuntimeError, AttributeError) as reason:
                print(f"{launch.name}, {who}: {str(reason).splitlines()[0]}")
        return found

    def _works(self, launch: Launch) -> dict[str, Callable[[Sequence[Any]], Any]]:
        works: dict[str, Callable[[Sequence[Any]], Any]] = {}
        if "attention" in launch.operation:
            for who, backend in ((FLASH, SDPBackend.FLASH_ATTENTION), (CUDNN, SDPBackend.CUDNN_ATTENTION)):
                works[who] = lambda arrays, backend=backend: _attention_by(backend, launch.operation, arrays)
        works[TORCH] = lambda arrays: compute(launch.operation, arrays)
        if self.triton is not None and launch.operation in self.triton.KERNELS:
            works[TRITON] = self.triton.KERNELS[launch.operation]
        return works


def compute(operation: str, arrays: Sequence[Any], *, exact: bool = False) -> Any:
    """What a launch computes, by torch; `exact` in f32 where products have narrower operands."""
    if operation in ("product", "product_nt"):
        a, b = arrays[0], arrays[1].T if operation.endswith("nt") else arrays[1]
        if exact:
            return a.float() @ b.float()
        if a.dtype is torch.float8_e4m3fn:
            one = torch.ones((), device=a.device)
            return torch._scaled_mm(a, b, one, one, out_dtype=arrays[2].dtype)
        return torch.matmul(a, b, out=arrays[2])
    if operation.endswith("attention"):
        q, k, v = (x[None] for x in arrays[:3])
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=operation.startswith("causal"))[0]
    if operation == "softmax":
        return torch.softmax(arrays[0].float() if exact else arrays[0], dim=1)
    if operation == "add":
        return torch.add(arrays[0], arrays[1], out=None if exact else arrays[2])
    if operation == "transpose":
        return arrays[0].T.contiguous()
    raise ValueError(f"torch is not told how to compute {operation}")


def _attention_by(backend: Any, operation: str, arrays: Sequence[Any]) -> Any:
    with sdpa_kernel(backend):
        return compute(operation, arrays)


def _bound(work: Callable[[Sequence[Any]], Any], arrays: Sequence[Any]) -> Callable[[], Any]:
    return lambda: work(arrays)


def _tensor(array: np.ndarray, dtype: str) -> Any:
    made = torch.from_numpy(np.ascontiguousarray(array)).cuda()
    return made.view(getattr(torch, dtype)) if dtype in ("bfloat16", "float8_e4m3fn") else made
