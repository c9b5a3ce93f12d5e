# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The launches of bench/on_gpu.py, each as the runner would make it, at small sizes: a driver that has the simulator
run what is launched, so that grids, arguments and tensor maps that are wrong show before there is a GPU."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("cuda.tile", reason="the kernels are exported by cuTile Python (pip install cuda-tile)")

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import on_gpu
import on_gpu_launches
import on_gpu_problems
import on_gpu_reference
import perf_kernels
from on_gpu import Runner
from on_gpu_launches import PLAIN, REFERENCE_PLAIN, Code, Launch
from on_gpu_problems import Sizes

from kernels import corpus
from kernels.model import Kernel
from libtile.compiler import driver
from libtile.compiler.options import Options
from libtile.simulator import EncodedTensorMap, run_ptx
from libtile.targets.tensor_map import decode
from oracle.host_objects import require_host_code
from runtime.host_memory_driver import MULTIPROCESSORS, HostMemoryDriver

SMALL = Sizes((256,), (2, 256), ((2, 256),), (4, 2048), 4, 3000, 192)
"""Sizes with several tiles along each dimension, or an edge within one."""
DEFAULT = {
    "sm_90": ("gemm_f16_128x128x64", "gemm_int8nt_128x128x64", "persistent_f16_128x128x64", "batched_f16_128x256x64",
              "dkdv_f16_d64_causal", "layer_norm_f16_1024", "vector_add_f32_1024", "transpose_f16_64x64"),
    "sm_100": ("scaled_mxf8_128x128x128",),
}  # fmt: skip
"""Kernels that are run by default."""


class SimulatedDriver(HostMemoryDriver):
    """A module is PTX, and the first launch runs in the simulator; later ones are only taken
    down."""

    def __init__(self, launch: Launch, code: Code) -> None:
        super().__init__()
        self.launch, self.code = launch, code
        self.launched: list[tuple[Any, ...]] = []
        self.ptx = ""
        self.conflicts: int | None = None

    def load(self, image: bytes) -> None:
        self.ptx = image.decode()

    def use(self, name: str) -> None:
        assert name == self.launch.kernel

    def launch_kernel(self, grid: Sequence[int], block: Sequence[int], parameters: Any) -> None:
        sizes = [*self.code.sizes, *[128] * len(self.code.descriptors + self.code.maps)]
        raw = [ctypes.string_at(address, size) for address, size in zip(parameters, sizes, strict=True)]
        self.launched.append((grid, block))
        if len(self.launched) > 1:
            return
        args: list[Any] = []
        for (kind, _), given in zip(self.launch.parameters, raw):
            number = int.from_bytes(given, "little", signed=True)
            args.append({"array": lambda n=number: self.memory[n], "int": lambda n=number: n,
                         "float": lambda g=given: float(np.frombuffer(g, f"f{len(g)}")[0])}[kind]())  # fmt: skip
        for given in raw[len(args) :]:
            base = decode(given).address
            args.append(EncodedTensorMap(self.memory[base], given, base))
        assert block[1:] == (1, 1)
        done = run_ptx(self.ptx, self.launch.kernel, grid=tuple(grid), block=block[0], args=args)
        self.conflicts = done.counters.bank_conflicts


class SimulatedDevice:
    """Of a driver older than Tile IR, so that our kernels are launched with their own blocks and tensor maps."""

    name, arch, driver_version = "simulated", "", on_gpu.TILE_IR_VERSION - 10

    def __init__(self, launch: Launch, who: str = PLAIN) -> None:
        self.driver = SimulatedDriver(launch, launch.codes[who])


def _cases() -> list[Any]:
    return [
        pytest.param(target, name, marks=() if name in default else pytest.mark.slow)
        for target, default in DEFAULT.items()
        for name in perf_kernels.kernels_for(target)
        if target == "sm_90" or name.startswith("scaled") or name in DEFAULT["sm_90"]
    ]


def _values(launch: Launch) -> list[Any]:
    """What the kernel's reference takes: arrays of their own types, and scalars."""
    made = on_gpu_launches.contents(launch)
    arrays = [
        x.view(getattr(ml_dtypes, a.dtype)) if a.dtype in on_gpu_launches.NARROW else x
        for x, a in zip(made, launch.arrays)
    ]
    return [*arrays, *(value for kind, value in launch.parameters if kind == "float")]


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch is timed once, on one copy of its arrays."""
    for setting in ("MOST_COPIES", "WARM", "BATCHES", "EACH"):
        monkeypatch.setattr(on_gpu, setting, 1)


@pytest.mark.parametrize(("target", "name"), _cases())
def test_a_launch_of_the_runner_computes_what_numpy_does(target: str, name: str, tmp_path: Path, once: None) -> None:
    kernel = perf_kernels.KERNELS[name]
    made = driver.compile_bytecode(corpus.export(kernel, kernel.versions[-1]), Options(target, launch_abi="simt"))
    compiled = made.kernels[name]
    sizes, recipes = tuple(p.size for p in compiled.params), tuple(map(asdict, compiled.descriptors))
    code = Code("k.ptx", compiled.block_dim, sizes, recipes)
    (launch,) = on_gpu_problems.problems(name, SMALL)
    launch = replace(launch, codes={PLAIN: code})
    on_gpu_launches.write_folder(tmp_path, [launch], on_gpu_launches.Peaks({}, 1.0), {"k.ptx": made.ptx.encode()})
    ((launch,), _) = on_gpu_launches.read_folder(tmp_path)

    device = SimulatedDevice(launch)
    seconds, results = Runner(device, tmp_path).run(launch, on_gpu_launches.OURS)  # type: ignore[arg-type, misc]
    blocks = min(launch.grid[0], MULTIPROCESSORS) if launch.persistent else launch.grid[0]
    assert set(device.driver.launched) == {((blocks, *launch.grid[1:]), code.block)}
    assert seconds > 0 and device.driver.conflicts == 0
    _check(kernel, launch, results)


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["gemm_f16_128x128x64", "layer_norm_f16_1024"])
def test_the_references_code_is_launched_as_an_ordinary_kernel(name: str, tmp_path: Path, once: None) -> None:
    require_host_code()
    kernel = perf_kernels.KERNELS[name]
    data = corpus.export(kernel, "13.4")
    (launch,) = on_gpu_problems.problems(name, SMALL)
    sizes = [{"array": 8, "int": 4, "float": 4}[kind] for kind, _ in launch.parameters]
    made = on_gpu_reference.PlainReference(data, "sm_90", name, sizes)
    assert made.hidden and made.cubin.startswith(b"\x7fELF")
    (tmp_path / "k.ptx").write_text(made.ptx)
    launch = replace(launch, codes={REFERENCE_PLAIN: replace(made.code_for(launch), file="k.ptx")})
    device = SimulatedDevice(launch, REFERENCE_PLAIN)
    _, results = Runner(device, tmp_path).run(launch, on_gpu_launches.REFERENCE)  # type: ignore[arg-type, misc]
    _check(kernel, launch, results)


def _check(kernel: Kernel, launch: Launch, results: Sequence[np.ndarray]) -> None:
    written = [array for array in launch.arrays if array.written]
    assert kernel.reference is not None
    wanted = kernel.reference(*_values(launch))
    for result, array, want in zip(results, written, wanted.values(), strict=True):
        got = result.view(getattr(ml_dtypes, array.dtype)) if array.dtype in on_gpu_launches.NARROW else result
        difference = np.abs(got.astype(np.float64) - want.astype(np.float64)).max()
        assert difference <= 4e-3 * np.abs(want.astype(np.float64)).max()


@pytest.mark.parametrize("target", ["sm_90", "sm_100", "sm_120"])
def test_each_kernel_of_a_target_has_problems_of_its_parameters(target: str) -> None:
    for name in perf_kernels.kernels_for(target):
        kernel = perf_kernels.KERNELS[name]
        assert kernel.problem is not None
        given = kernel.problem(np.random.default_rng(0)).values
        for launch in on_gpu_problems.problems(name):
            kinds = ["array" if isinstance(value, np.ndarray) else "float" for value in given]
            assert [kind for kind, _ in launch.parameters if kind != "int"] == kinds
            shapes = [value.ndim for value in given if isinstance(value, np.ndarray)]
            assert [len(array.shape) for array in launch.arrays] == shapes
            # Tiles count as i32, and what is in memory at once is a part of a GPU's.
            assert max(launch.grid) < 1 << 31 and launch.bytes * on_gpu_launches.MOST_COPIES < 40 << 30


def test_the_kernels_are_those_that_the_table_is_to_have() -> None:
    names = set(perf_kernels.kernels_for("sm_90"))
    tiles = ("128x128x64", "128x256x64", "256x128x64")
    kinds = ("f16", "bf16", "tf32nt", "fp8nt", "int8nt")
    assert names >= {f"gemm_{kind}_{tile}" for kind in kinds for tile in tiles}
    assert names >= {f"{what}_f16_d{depth}{causal}" for what in ("attention", "dkdv", "dq") for depth in (64, 128, 256)
                     for causal in ("", "_causal")}  # fmt: skip
    assert set(perf_kernels.kernels_for("sm_100")) - names == {
        name for name in perf_kernels.KERNELS if "scaled" in name
    }
    rows = {launch.arrays[0].shape[1] for launch in on_gpu_problems.problems("attention_f16_d64")}
    assert min(rows) == 1024 and max(rows) == 16384
