# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""bench/on_gpu.py without a GPU: its folder, the arguments of a launch, what it does with a driver, its table."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import libtile
from libtile.support.errors import LibtileError
from libtile.targets.tensor_map import TiledMap, decode, encode
from lowering.specialized_kernels import Gemm
from patience import PATIENCE
from runtime.host_memory_driver import HostMemoryDriver

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import on_gpu  # noqa: E402
import on_gpu_launches  # noqa: E402
from on_gpu import Row, Runner  # noqa: E402
from on_gpu_launches import OURS, PLAIN, REFERENCE, REFERENCE_PLAIN, Array, Code, Launch, Peaks, flat  # noqa: E402

ARRAYS = Array("float16", (256, 512)), Array("float16", (512, 128)), Array("float16", (256, 128), True)
LAUNCH = Launch(
    "product 256", "gemm", "product", ARRAYS, (*flat(ARRAYS), ("float", 0.5)), (4, 1, 1), 2.0 * 256 * 512 * 128,
    codes={who: Code(f"{who}.cubin", (1, 1, 1), (8, 4, 4, 4, 4) * 3 + (4,)) for who in (OURS, REFERENCE)},
)  # fmt: skip
PEAKS = Peaks({"f16": 1e15}, 1e12)


def test_a_folder_comes_back(tmp_path: Path) -> None:
    code = replace(LAUNCH.codes[OURS], descriptors=({"base": 0, "sizes": [{"number": 2}, 8]},))
    launch = replace(LAUNCH, codes={PLAIN: code, REFERENCE_PLAIN: replace(code, maps=((1, "00ff"),), cluster=2)})
    on_gpu_launches.write_folder(tmp_path / "sm_90", [launch], PEAKS, {"a.cubin": b"x"})
    assert on_gpu_launches.read_folder(tmp_path / "sm_90") == ([launch], PEAKS)
    assert (tmp_path / "sm_90" / "a.cubin").read_bytes() == b"x"


def test_a_folder_that_is_too_large_or_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LibtileError, match="may have 41943040"):
        on_gpu_launches.write_folder(tmp_path, [], PEAKS, {"a.cubin": bytes(on_gpu_launches.MOST_BYTES + 1)})
    with pytest.raises(LibtileError, match="--prepare writes it"):
        on_gpu_launches.read_folder(tmp_path)


def test_parameters_are_addresses_sizes_strides_and_scalars() -> None:
    made = on_gpu_launches.marshal(LAUNCH, LAUNCH.codes[OURS], [0x1000, 0x2000, 0x3000])
    numbers = [int.from_bytes(p, "little") for p in made[:-1]]
    assert numbers == [0x1000, 256, 512, 512, 1, 0x2000, 512, 128, 128, 1, 0x3000, 256, 128, 128, 1]
    assert [len(p) for p in made] == [8, 4, 4, 4, 4] * 3 + [4]
    assert np.frombuffer(made[-1], np.float32) == 0.5


def test_tensor_maps_of_ordinary_kernels_are_made_of_the_arguments() -> None:
    text = Gemm(rows=64, columns=64, stages=2, groups=1, registers="[240, 24]").text
    compiled = libtile.compile(text.encode(), gpu_name="sm_90", launch_abi="simt").kernels["gemm"]
    parameters = (("array", 0), ("array", 1), ("array", 2), ("int", 64), ("int", 80), ("int", 128))
    sizes, recipes = tuple(p.size for p in compiled.params), tuple(map(asdict, compiled.descriptors))
    code = Code("a.cubin", compiled.block_dim, sizes, recipes)
    made = on_gpu_launches.marshal(replace(LAUNCH, parameters=parameters), code, [0x1000, 0x2000, 0x3000])
    a, b = (decode(x) for x in made[len(parameters) :])
    assert (a.address, a.sizes, b.address, b.sizes) == (0x1000, (128, 64), 0x2000, (80, 128))


class FakeDriver(HostMemoryDriver):
    """A launch adds one to the results of each copy of `LAUNCH`'s arrays."""

    def __init__(self) -> None:
        super().__init__()
        self.launched: list[tuple[tuple[int, ...], int]] = []
        self.loaded: list[bytes] = []

    def load(self, image: bytes) -> None:
        self.loaded.append(image)

    def use(self, name: str) -> None:
        assert name == LAUNCH.kernel

    def launch_kernel(self, grid: Sequence[int], block: Sequence[int], parameters: Any) -> None:
        place = ctypes.cast(parameters[10], ctypes.POINTER(ctypes.c_uint64))[0]
        values = np.ctypeslib.as_array((ctypes.c_uint16 * (256 * 128)).from_address(place))
        values[:] = np.float16(2).view(np.uint16)
        self.launched.append(((*grid, *block), place))


class FakeDevice:
    name, arch = "a fake", "sm_90"

    def __init__(self, version: int = 13010) -> None:
        self.driver, self.driver_version = FakeDriver(), version


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    on_gpu_launches.write_folder(tmp_path, [LAUNCH], PEAKS, {f"{who}.cubin": who.encode() for who in (OURS, REFERENCE)})
    return tmp_path


def test_launches_take_turns_between_copies_and_give_results(folder: Path) -> None:
    device = FakeDevice()
    seconds, results = Runner(device, folder).run(LAUNCH, REFERENCE)  # type: ignore[arg-type, misc]
    driver = device.driver
    assert driver.loaded == [b"reference"] and not driver.memory
    assert len({place for _, place in driver.launched}) == on_gpu_launches.MOST_COPIES
    assert len(driver.launched) == on_gpu_launches.MOST_COPIES + 1 + on_gpu.BATCHES * on_gpu.EACH
    assert {extents for extents, _ in driver.launched} == {(4, 1, 1, 1, 1, 1)}
    assert seconds == pytest.approx(0.05 / 1000 / on_gpu.EACH)
    assert len(results) == 1 and (results[0] == 2).all()


def test_a_persistent_kernel_has_a_block_for_each_multiprocessor(folder: Path) -> None:
    device = FakeDevice()
    Runner(device, folder).run(replace(LAUNCH, persistent=True), OURS)  # type: ignore[arg-type]
    assert {extents for extents, _ in device.driver.launched} == {(3, 1, 1, 1, 1, 1)}


def test_an_older_driver_launches_ordinary_kernels(folder: Path) -> None:
    plain = replace(LAUNCH.codes[OURS], block=(256, 1, 1))
    launch = replace(LAUNCH, codes={**LAUNCH.codes, PLAIN: plain})
    device = FakeDevice(13000)
    runner = Runner(device, folder)  # type: ignore[arg-type]
    assert runner.run(launch, REFERENCE) is None
    assert runner.run(launch, OURS) is not None
    assert {extents for extents, _ in device.driver.launched} == {(4, 1, 1, 256, 1, 1)}
    launch = replace(launch, codes={REFERENCE_PLAIN: replace(plain, cluster=2)})
    device.driver.launched.clear()
    assert runner.run(launch, REFERENCE) is not None
    assert {extents for extents, _ in device.driver.launched} == {(8, 1, 1, 256, 1, 1)}


def test_tensor_maps_that_are_there_get_the_addresses_of_arrays() -> None:
    raw = encode(TiledMap(0x40, "f16", (512, 256), (1024,), (64, 64), swizzle="128B"))
    code = replace(LAUNCH.codes[OURS], maps=((1, raw.hex()),))
    made = on_gpu_launches.marshal(LAUNCH, code, [0x1000, 0x2000, 0x3000])
    assert len(made) == len(LAUNCH.parameters) + 1
    assert decode(made[-1]) == replace(decode(raw), address=0x2040)


def test_an_interrupt_leaves_what_was_measured(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Beside:
        def difference(self, *_: Any) -> float:
            raise KeyboardInterrupt

    runner = Runner(FakeDevice(), folder)  # type: ignore[arg-type]
    assert on_gpu.measure(runner, [LAUNCH, LAUNCH], Beside()) == []
    assert [row.seconds.keys() for row in on_gpu.measure(runner, [LAUNCH], None)] == [{OURS, REFERENCE}]
    assert "interrupted: 0 rows were measured" in capsys.readouterr().err


def test_the_table_has_rates_ratios_and_what_bounds() -> None:
    rows = [Row(LAUNCH, {OURS: 2e-6, REFERENCE: 3e-6}, 1e-3), Row(LAUNCH, {}, None, "ours: it failed")]
    text = on_gpu.table(rows, PEAKS, [REFERENCE, "torch"])
    assert "| product 256 | 2.0 | 16.8 | 229 | memory | 0.23 | 1.50 | - | 0.001 |" in text
    assert "| product 256 | - | - | - | memory | - | - | - | ours: it failed |" in text
    assert "geometric mean: reference 1.50." in text


def test_the_gpu_machine_needs_numpy_only() -> None:
    """Nothing of what libtile is made of is imported for a launch."""
    code = "import sys\nfor n in ('xdsl', 'llvmlite', 'construct', 'click', 'ml_dtypes', 'cuda'): sys.modules[n] = None\nimport on_gpu"  # noqa: E501
    subprocess.run([sys.executable, "-c", code], cwd=BENCH, check=True, timeout=PATIENCE)


def test_without_a_gpu_the_command_prints_static_figures_and_counts() -> None:
    pytest.importorskip("cuda.tile")
    environment = {"LIBTILE_CUDA_DRIVER": "/nonexistent/libcuda.so", "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "hopper.py", "--kernels", "vector_add"], cwd=BENCH, capture_output=True,
                          text=True, timeout=PATIENCE, env=environment, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "| vector_add_f32_1024 | sm_90 |" in done.stdout and "| vector_add_f32_1024 | 2 |" in done.stdout
