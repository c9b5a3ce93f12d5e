# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `on_gpu.py` compares with where there is torch: its results, and its times and Triton's on arrays of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from on_gpu_launches import MOST_COPIES, ROTATED_BYTES, Launch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import layer_norm, rms_norm, scaled_dot_product_attention

if TYPE_CHECKING:
    from on_gpu import Runner

TORCH, FLASH, CUDNN, TRITON = "torch", "flash", "cudnn", "triton"
EPSILON = 1e-5
NARROW = ("bfloat16", "float8_e4m3fn", "float8_e8m0fnu")
"""Types that come as their codes."""
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""The numbers of 4 bits without their sign, by their codes."""

Work = Callable[[], Any]


class Beside:
    """Torch, and Triton where it can be imported."""

    def __init__(self) -> None:
        if not torch.cuda.is_available():
            raise ImportError("torch sees no GPU")
        # Products of f32 are compared with products of tf32.
        torch.set_float32_matmul_precision("high")
        try:
            import triton_side
        except ImportError as reason:
            print(f"no Triton: {reason}")
            self.triton: Any = None
        else:
            self.triton = triton_side
        self.names = [TORCH, FLASH, CUDNN, *([TRITON] if self.triton else [])]

    def difference(self, launch: Launch, given: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> float:
        """The largest difference of results from torch's, over the largest of torch's."""
        arrays = [tensor(array, a.dtype) for array, a in zip(given, launch.arrays)]
        written = [a for a in launch.arrays if a.written]
        found = []
        for wanted, result, array in zip(exact(launch.operation, arrays), results, written, strict=True):
            got, wanted = tensor(result, array.dtype).double(), wanted.double()
            found.append(float((got - wanted).abs().max() / wanted.abs().max().clamp(min=1e-30)))
        return max(found)

    def times(self, launch: Launch, runner: Runner) -> dict[str, float]:
        """Seconds by who; who cannot is left out, which is said."""
        copies = max(1, min(MOST_COPIES, -(-ROTATED_BYTES // max(launch.bytes, 1))))
        first = [tensor(array, a.dtype) for array, a in zip(runner.contents(launch), launch.arrays)]
        sets = [first, *([array.clone() for array in first] for _ in range(copies - 1))]
        found = {}
        for who, prepare in self.works(launch).items():
            try:
                with torch.cuda.stream(torch.cuda.default_stream()):
                    found[who] = runner.time([prepare(arrays) for arrays in sets])
            except (RuntimeError, AttributeError, NotImplementedError) as reason:
                print(f"{launch.name}, {who}: {(str(reason).splitlines() or [type(reason).__name__])[0]}")
        return found

    def works(self, launch: Launch) -> dict[str, Callable[[Sequence[Any]], Work]]:
        """By who: what prepares a launch's work on arrays, and returns what is timed."""
        operation = launch.operation
        causal = operation.startswith("causal ")
        works: dict[str, Callable[[Sequence[Any]], Work]] = {}
        prepared = {"attention": _attention, "attention's gradients": _gradients}.get(operation.removeprefix("causal "))
        if prepared is not None:
            backends = (FLASH, SDPBackend.FLASH_ATTENTION), (CUDNN, SDPBackend.CUDNN_ATTENTION), (TORCH, None)
            for who, backend in backends:
                works[who] = lambda arrays, backend=backend: prepared(backend, causal, arrays)
        elif timed(operation):
            works[TORCH] = lambda arrays: lambda: compute(operation, arrays)
        if self.triton is not None and operation in self.triton.KERNELS:
            kernel = self.triton.KERNELS[operation]
            works[TRITON] = lambda arrays: lambda: kernel(arrays)
        return works


def timed(operation: str) -> bool:
    """Whether torch has an operation by itself, for what is not attention."""
    return not operation.startswith("scaled product") and "attention" not in operation


def compute(operation: str, arrays: Sequence[Any]) -> Any:
    """An operation that is not attention, as torch does it."""
    a, b = arrays[0], arrays[1]
    match operation:
        case "product" | "product_nt":
            b = b.mT if operation.endswith("nt") else b
            if a.dtype is torch.float8_e4m3fn:
                one = torch.ones((), device=a.device)
                return torch._scaled_mm(a, b, one, one, out_dtype=arrays[2].dtype)
            if a.dtype is torch.int8:
                return torch._int_mm(a, b)
            return torch.matmul(a, b, out=arrays[2])
        case "gathered product":
            return torch.matmul(a[b], arrays[2], out=arrays[3])
        case "softmax":
            return torch.softmax(a, dim=1)
        case "layer norm":
            return layer_norm(a, a.shape[1:], b, arrays[2], EPSILON)
        case "rms norm":
            return rms_norm(a, a.shape[1:], b, EPSILON)
        case "add":
            return torch.add(a, b, out=arrays[2])
        case "transpose":
            return a.T.contiguous()
    raise ValueError(f"torch is not told how to compute {operation}")


def _attention(backend: Any, causal: bool, arrays: Sequence[Any]) -> Work:
    q, k, v = (x[None] for x in arrays[:3])

    def work() -> Any:
        if backend is None:
            return scaled_dot_product_attention(q, k, v, is_causal=causal)
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(q, k, v, is_causal=causal)

    return work


def _gradients(backend: Any, causal: bool, arrays: Sequence[Any]) -> Work:
    """The backward pass alone: the forward one, and what it keeps, is prepared."""
    q, k, v = (x[None].detach().requires_grad_() for x in arrays[:3])
    given = arrays[3][None]
    if backend is None:
        out = scaled_dot_product_attention(q, k, v, is_causal=causal)
    else:
        with sdpa_kernel(backend):
            out = scaled_dot_product_attention(q, k, v, is_causal=causal)
    return lambda: torch.autograd.grad(out, (q, k, v), given, retain_graph=True)


def exact(operation: str, arrays: Sequence[Any]) -> list[Any]:
    """What a launch should have written, in f32 (or whole numbers), of operands as its kernel rounds them."""
    what = operation.removeprefix("causal ")
    causal = what != operation
    if "attention" in what:
        return _exact_attention(what, causal, arrays)
    if what.startswith("scaled product"):
        block = int(what.rpartition(" ")[2])
        x, y = (_scaled(*arrays[i : i + 2], block) for i in (0, 2))
        return [_full(x, y.T)]
    a, b = arrays[0], arrays[1]
    if what in ("product", "product_nt"):
        b = b.mT if what.endswith("nt") else b
        if a.dtype is torch.int8:
            return [_whole_product(a, b)]
        if a.dtype is torch.float32:
            a, b = tf32(a), tf32(b.contiguous())
        return [_full(a.float(), b.float())]
    if what == "gathered product":
        return [_full(a[b].float(), arrays[2].float())]
    wide = [x.float() for x in arrays]
    match what:
        case "softmax":
            return [torch.softmax(wide[0], dim=1)]
        case "layer norm":
            return [layer_norm(wide[0], wide[0].shape[1:], wide[1], wide[2], EPSILON)]
        case "rms norm":
            return [rms_norm(wide[0], wide[0].shape[1:], wide[1], EPSILON)]
        case "add":
            return [wide[0] + wide[1]]
        case "transpose":
            return [wide[0].T]
    raise ValueError(f"torch is not told how to compute {operation}")


def _full(a: Any, b: Any) -> Any:
    """A product of f32 that is not rounded to tf32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        return a @ b
    finally:
        torch.set_float32_matmul_precision(before)


def _whole_product(a: Any, b: Any) -> Any:
    """A product of 8-bit integers, exact: sums of 8192 products of them fit the 53 bits of f64."""
    return (a.double() @ b.double()).to(torch.int32)


def tf32(x: Any) -> Any:
    """f32 rounded to tf32, halves to even, as the conversion does."""
    bits = x.view(torch.int32)
    return ((bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)


def _scaled(stored: Any, pieces: Any, block: int) -> Any:
    """An operand with its factors, which lie in pieces of 32x4x4; bytes hold two numbers of 4 bits."""
    if stored.dtype is torch.uint8:
        table = torch.tensor([*E2M1, *(-x for x in E2M1)], device=stored.device)
        stored = torch.stack([table[(stored & 15).long()], table[(stored >> 4).long()]], -1).flatten(-2)
    m, k = pieces.shape[:2]
    factors = pieces.float().reshape(m, k, 32, 4, 4).permute(0, 3, 2, 1, 4).reshape(m * 128, k * 4)
    return stored.float() * factors[: stored.shape[0]].repeat_interleave(block, 1)[:, : stored.shape[1]]


def _exact_attention(what: str, causal: bool, arrays: Sequence[Any]) -> list[Any]:
    """Head by head, as scores of all heads together would not fit."""
    heads = [_head(what, causal, [x[head].float() for x in arrays]) for head in range(arrays[0].shape[0])]
    return [torch.stack(results) for results in zip(*heads)]


def _head(what: str, causal: bool, arrays: Sequence[Any]) -> list[Any]:
    q, k, v = arrays[:3]
    scale = q.shape[-1] ** -0.5
    score = _full(q, k.T) * scale
    if causal:
        lines = torch.arange(len(q), device=q.device)
        score.masked_fill_(lines[:, None] < lines, float("-inf"))
    if what == "attention":
        return [_full(torch.softmax(score, -1), v)]
    grad, peaks, sums = arrays[3:6]
    weight = torch.exp2(score / np.log(2.0) - peaks[:, None])
    slope = weight * (_full(grad, v.T) - sums[:, None])
    if what == "attention's dq":
        return [_full(slope, k) * scale]
    return [_full(slope.T, q) * scale, _full(weight.T, grad)]


def tensor(array: np.ndarray, dtype: str) -> Any:
    """An array, of codes where the type is narrow, on the GPU."""
    made = torch.from_numpy(np.ascontiguousarray(array)).cuda()
    return made.view(getattr(torch, dtype)) if dtype in NARROW else made
