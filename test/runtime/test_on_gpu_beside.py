# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What bench/on_gpu.py compares with, without a GPU: torch's side on its CPU, Triton's kernels in its interpreter and
through its compiler, which makes cubins with no GPU. Needs `pip install torch triton`; each is skipped without."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("cuda.tile", reason="the kernels are exported by cuTile Python (pip install cuda-tile)")
torch = pytest.importorskip("torch", reason="pip install torch")

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import on_gpu  # noqa: E402
import on_gpu_launches  # noqa: E402
import on_gpu_problems  # noqa: E402
import perf_kernels  # noqa: E402
import torch_side  # noqa: E402
from on_gpu_launches import Launch  # noqa: E402
from on_gpu_problems import Sizes  # noqa: E402

SMALL = Sizes((256,), (2, 256), ((2, 256),), (4, 1024), 4, 3000, 256)
NAMES = perf_kernels.kernels_for("sm_100")
OPERATIONS = {launch.operation: launch for launch in on_gpu_problems.launches("sm_100", sizes=SMALL)}
"""A launch of each operation."""
NOT_INTERPRETED = {
    "gemm_bf16": "Triton's interpreter multiplies bf16 by its bits",
    "scaled_nvf4": "Triton's interpreter takes factors for powers of two",
}
NOT_ON_CPU = ("cudnn",)


@pytest.fixture(autouse=True)
def _cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "cuda", lambda self: self)


def _launch(name: str) -> tuple[Launch, list[Any], list[np.ndarray]]:
    """A small problem, its arrays in torch, and what numpy says of its results."""
    (launch,) = on_gpu_problems.problems(name, SMALL)
    made = on_gpu_launches.contents(launch)
    typed = [x.view(getattr(ml_dtypes, a.dtype)) if a.dtype in on_gpu_launches.NARROW else x
             for x, a in zip(made, launch.arrays)]  # fmt: skip
    scalars = [value for kind, value in launch.parameters if kind == "float"]
    reference = perf_kernels.KERNELS[name].reference
    assert reference is not None
    wanted = list(reference(*typed, *scalars).values())
    return launch, [torch_side.tensor(x.copy(), a.dtype) for x, a in zip(made, launch.arrays)], wanted


def _difference(got: Any, wanted: np.ndarray) -> float:
    want = wanted.astype(np.float64)
    return float(np.abs(got.double().numpy() - want).max() / np.abs(want).max())


def _beside(triton: Any = None) -> torch_side.Beside:
    made = torch_side.Beside.__new__(torch_side.Beside)
    made.triton = triton
    return made


@pytest.mark.parametrize("name", NAMES)
def test_what_torch_wants_is_what_numpy_says(name: str) -> None:
    launch, arrays, wanted = _launch(name)
    for got, want in zip(torch_side.exact(launch.operation, arrays), wanted, strict=True):
        assert _difference(got, want) < 4e-3


def test_a_wrong_result_differs() -> None:
    launch, _, wanted = _launch("gemm_f16_128x128x64")
    given, results = on_gpu_launches.contents(launch), [wanted[0].copy()]
    assert _beside().difference(launch, given, results) < 1e-3
    results[0][17, 3] += 40
    assert _beside().difference(launch, given, results) > on_gpu.MOST_DIFFERENT


@pytest.mark.parametrize("name", [n for n in NAMES if not n.startswith(("scaled", "dkdv", "dq"))])
def test_what_torch_is_timed_with_computes_the_same(name: str) -> None:
    launch, arrays, wanted = _launch(name)
    works = _beside().works(launch)
    assert works
    for who, prepare in works.items():
        if who not in NOT_ON_CPU:
            got = prepare(arrays)()
            assert _difference(got[0] if "attention" in launch.operation else got, wanted[0]) < 4e-3, who


def test_gradients_of_torch_are_timed_without_the_forward_pass() -> None:
    """By definition: those of the kernels, for what the forward pass keeps."""
    dkdv, dq = (on_gpu_problems.problems(f"{name}_f16_d64_causal", SMALL)[0] for name in ("dkdv", "dq"))
    held = on_gpu_launches.contents(dkdv)
    q, k, v, grad = (torch.from_numpy(x) for x in held[:4])
    score = (q.double() @ k.double().mT) * 64**-0.5
    score = score.masked_fill(torch.ones(256, 256).triu(1).bool(), float("-inf"))
    peaks = torch.logsumexp(score, -1) / np.log(2.0)
    sums = ((torch.softmax(score, -1) @ v.double()) * grad).sum(-1)
    given = [q, k, v, grad, peaks.float(), sums.float()]
    wanted = [*torch_side.exact(dq.operation, given), *torch_side.exact(dkdv.operation, given)]
    for who, prepare in _beside().works(on_gpu.replace(dq, operation="causal attention's gradients")).items():
        if who not in NOT_ON_CPU:
            for got, want in zip(prepare(given)(), wanted, strict=True):
                assert float((got[0].double() - want).abs().max() / want.abs().max()) < 4e-3, who


def test_times_are_taken_of_each_copy_and_who_cannot_is_said(monkeypatch, capsys) -> None:
    class Timer:
        def time(self, calls: Sequence[Any]) -> float:
            for call in calls:
                call()
            return 1e-3 * len(calls)

    class Nothing:
        def __enter__(self) -> None: ...
        def __exit__(self, *given: object) -> None: ...

    monkeypatch.setattr(torch.cuda, "stream", lambda stream: Nothing())
    monkeypatch.setattr(torch.cuda, "default_stream", lambda: None)
    launch, _, _ = _launch("attention_f16_d64")
    found = _beside().times(launch, Timer())  # type: ignore[arg-type]
    assert found == dict.fromkeys(("flash", "torch"), 0.001 * on_gpu_launches.MOST_COPIES)
    assert f"{launch.name}, cudnn: No viable backend" in capsys.readouterr().out


# -- Triton ------------------------------------------------------------------------------------------------------------

_INTERPRETED = """
import sys, torch
sys.path[:0] = {path}
import test_on_gpu_beside as test
from triton.runtime.autotuner import Autotuner
import triton_side
torch.Tensor.cuda = lambda self: self
for value in vars(triton_side).values():
    if isinstance(value, Autotuner):
        value.configs = value.configs[:1]  # more would be timed
for name in {names}:
    launch, arrays, wanted = test._launch(name)
    results = [x for x, a in zip(arrays, launch.arrays) if a.written]
    triton_side.KERNELS[launch.operation](arrays)
    print(name, max(test._difference(*pair) for pair in zip(results, wanted, strict=True)))
"""


def _interpreted() -> list[Any]:
    seen: set[str] = set()
    names = []
    for name in NAMES:
        (launch,) = on_gpu_problems.problems(name, SMALL)
        kind = "_".join(name.split("_")[:2])
        if kind not in NOT_INTERPRETED and f"{launch.operation} {kind}" not in seen:
            names.append(name)
        seen.add(f"{launch.operation} {kind}")
    return names


@pytest.mark.slow
def test_kernels_of_triton_compute_what_numpy_does() -> None:
    pytest.importorskip("triton", reason="pip install triton")
    path = [str(BENCH), str(Path(__file__).parent), str(Path(__file__).parents[1])]
    names = _interpreted()
    done = subprocess.run(
        [sys.executable, "-c", _INTERPRETED.format(path=path, names=names)], capture_output=True, text=True,
        env={**os.environ, "TRITON_INTERPRET": "1"}, timeout=1200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = dict(line.split() for line in done.stdout.splitlines() if line.split()[0] in names)
    assert list(found) == names
    assert {name: value for name, value in found.items() if not float(value) < 4e-3} == {}


class Compiled:
    """In place of a kernel of Triton: what is launched is compiled for a target, in each configuration."""

    def __init__(self, kernel: Any, capability: int, most: int | None) -> None:
        self.configs = getattr(kernel, "configs", [None])[:most]
        self.function = getattr(kernel, "fn", kernel) if hasattr(kernel, "configs") else kernel
        self.capability = capability
        self.cubins: list[bytes] = []

    def __getitem__(self, grid: Any) -> Any:
        return lambda *args, **given: self._launch(grid, args, given)

    def _launch(self, grid: Any, args: Sequence[Any], given: dict[str, Any]) -> None:
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource

        for config in self.configs:
            chosen = {} if config is None else config.kwargs
            warps = given.get("num_warps", config.num_warps if config is not None else 4)
            constants = {k: v for k, v in given.items() if k != "num_warps"} | chosen
            extents = grid(chosen) if callable(grid) else grid
            assert all(extent > 0 for extent in extents)
            runtime = [name for name in self.function.arg_names if name not in constants]
            assert len(args) >= len(runtime)
            named = dict(zip(self.function.arg_names, args, strict=False)) | constants
            assert set(named) == set(self.function.arg_names)
            signature = {}
            for parameter in self.function.params:
                value = named[parameter.name]
                signature[parameter.name] = "constexpr" if parameter.is_constexpr else _triton_type(value)
            fixed = {p.name: named[p.name] for p in self.function.params if p.is_constexpr}
            source = ASTSource(fn=self.function, signature=signature, constexprs=fixed, attrs={})
            options = {"num_warps": warps, "num_stages": 3 if config is None else config.num_stages}
            made = triton.compile(source, target=GPUTarget("cuda", self.capability, 32), options=options)
            self.cubins.append(made.asm["cubin"])


def _triton_type(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        names = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float8_e4m3fn": "fp8e4nv", "int8": "i8",
                 "uint8": "u8", "int32": "i32"}  # fmt: skip
        return f"*{names[str(value.dtype).removeprefix('torch.')]}"
    return "fp32" if isinstance(value, float) else "i32"


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_kernels_of_triton_compile(operation: str, every: bool, monkeypatch, tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="pip install triton")
    import triton_side
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    capability = 100 if operation.startswith("scaled") else 90
    kernels = {n: k for n, k in vars(triton_side).items()
               if isinstance(k, Autotuner | JITFunction) and n not in ("_place", "_factors")}  # fmt: skip
    standing = {name: Compiled(kernel, capability, None if every else 1) for name, kernel in kernels.items()}
    for name, stand_in in standing.items():
        monkeypatch.setattr(triton_side, name, stand_in)
    launch = OPERATIONS[operation]
    arrays = [torch_side.tensor(x, a.dtype) for x, a in zip(on_gpu_launches.contents(launch), launch.arrays)]
    triton_side.KERNELS[operation](arrays)
    (used,) = (stand_in for stand_in in standing.values() if stand_in.cubins)
    assert all(cubin[:4] == b"\x7fELF" for cubin in used.cubins)
