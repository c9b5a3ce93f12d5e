# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The backend `gpu` on a driver that needs no GPU: what is copied, launched, freed, and said when something fails."""

from __future__ import annotations

import io
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import libtile
from libtile.cutile.pytest_plugin import pytest_load_initial_conftests
from libtile.interpreter.entries import LaunchError
from libtile.runtime import cuda_driver
from libtile.runtime.cuda_driver import Device, GpuUnavailableError
from libtile.runtime.gpu import GpuFault, launch_abi, target_name
from libtile.support.environment import CUDA_DRIVER
from libtile.targets.tensor_map import decode
from lowering.specialized_kernels import Gemm

HERE = Path(__file__).resolve().parent
VECTOR_ADD = HERE.parents[1] / "examples" / "vector_add.bc"

SCALARS = """
cuda_tile.module @m {
  entry @scalars(%a: tile<i1>, %b: tile<i8>, %c: tile<i64>, %d: tile<f16>, %e: tile<f32>, %f: tile<f64>,
                 %out: tile<ptr<i8>>) {
    return
  }
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler to build the driver with")
    result = tmp_path_factory.mktemp("driver") / "libcuda.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", result, HERE / "fake_driver.c"], check=True)
    return result


class Machine:
    """The fake machine: its settings, and the log of the calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, log: Path) -> None:
        self._monkeypatch, self._log = monkeypatch, log

    def set(self, **settings: object) -> None:
        for name, value in settings.items():
            self._monkeypatch.setenv(f"FAKE_CUDA_{name.upper()}", str(value))

    def calls(self, *names: str) -> list[str]:
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [line for line in lines if not names or line.split()[0] in names]


@pytest.fixture
def machine(library: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv(CUDA_DRIVER.name, str(library))
    monkeypatch.setenv("FAKE_CUDA_LOG", str(tmp_path / "log"))
    cuda_driver.default_driver.cache_clear()
    yield Machine(monkeypatch, tmp_path / "log")
    cuda_driver.default_driver.cache_clear()


def add(size: int = 1000, **options: object) -> np.ndarray:
    a, b, out = np.arange(size, dtype=np.float32), np.ones(size, np.float32), np.zeros(size, np.float32)
    args = [value for array in (a, b, out) for value in (array, size, 1)]
    libtile.run(VECTOR_ADD, grid=4, args=args, backend="gpu", **options)
    return out - a


def test_arrays_go_to_the_device_and_come_back(machine):
    assert (add() == 1).all()
    assert machine.calls("cuModuleLoadData", "cuLaunchKernel") == [
        "cuModuleLoadData ELF",
        "cuLaunchKernel vector_add grid 4 1 1 block 1 1 1 shared 0",
    ]
    assert machine.calls("cuMemAlloc", "cuMemFree") == ["cuMemAlloc 4000"] * 3 + ["cuMemFree "] * 3
    assert machine.calls()[-1] == "cuModuleUnload 8"


def test_an_ordinary_kernel_is_launched_with_its_threads(machine):
    assert (add(launch_abi="simt") == 1).all()
    assert machine.calls("cuLaunchKernel") == ["cuLaunchKernel vector_add grid 4 1 1 block 128 1 1 shared 0"]


def test_a_driver_that_does_not_know_tile_ir_gets_an_ordinary_kernel(machine):
    machine.set(version=12080)
    assert (add() == 1).all()
    assert "block 128 1 1" in machine.calls("cuLaunchKernel")[0]
    machine.set(fail="cuModuleLoadData:218")
    with pytest.raises(GpuFault, match=r"a driver for CUDA 13\.1, and this one is for 12\.8: use launch_abi='simt'"):
        add(launch_abi="tileir")


def test_a_driver_without_its_jit_compiler_is_told_what_is_missing(machine):
    machine.set(fail="cuModuleLoadData:221")
    with pytest.raises(GpuFault, match=r"JIT_COMPILER_NOT_FOUND; .*libnvidia-ptxjitcompiler\.so\.1"):
        add()


def test_arrays_that_share_memory_share_it_on_the_device(machine):
    whole = np.arange(1024, dtype=np.float32)
    a, b = whole[:600], whole[400:]
    args = [a, 600, 1, b, 600, 1, b, 600, 1]
    expected = a + b[:600]
    libtile.run(VECTOR_ADD, grid=3, args=args, backend="gpu")
    assert machine.calls("cuMemAlloc") == ["cuMemAlloc 4096"]
    assert (whole[400:600] == expected[:200]).all()  # what comes later read what was written


def test_scalars_have_the_bytes_of_their_types(machine):
    out = np.zeros(24, np.uint8)
    libtile.run(SCALARS.encode(), args=[1, -2, 3 - 2**40, 1.5, 0.25, -3.0, out], backend="gpu")
    parts = [out[:1], out[1:2].view("i1"), out[2:10].view("i8"), out[10:12].view("f2"), out[12:16].view("f4")]
    assert [part[0] for part in [*parts, out[16:].view("f8")]] == [1, -2, 3 - 2**40, 1.5, 0.25, -3.0]


def test_a_list_of_arrays_is_a_table_of_their_addresses(machine):
    text = "cuda_tile.module @m { entry @rows(%t: tile<ptr<i64>>, %n: tile<i32>, %out: tile<ptr<f32>>) { return } }"
    whole, out = np.arange(20, dtype=np.float32), np.zeros(3, np.float32)
    libtile.run(text.encode(), args=[[whole[3:7], whole[4::5], np.full(2, 9, np.float32)], 3, out], backend="gpu")
    assert out.tolist() == [1403, 5404, 1209]  # the first element, 100 times the size, 1000 times the stride
    assert sorted(machine.calls("cuMemAlloc")) == sorted(f"cuMemAlloc {n}" for n in (9 * 8, 68, 8, 12))
    assert machine.calls("cuMemcpyDtoH") == [f"cuMemcpyDtoH {n}" for n in (68, 8, 12)]  # all but the table


CUTILE_TEST = """
import cuda.tile as ct
import numpy as np

@ct.kernel
def vector_add(a, b, out):
    ct.store(out, 0, ct.load(a, 0, (16,)) + ct.load(b, 0, (16,)))

class OnGpu:
    def __init__(self, array):
        self.array = array
        self.__cuda_array_interface__ = {
            "data": (array.ctypes.data, False), "shape": array.shape, "typestr": array.dtype.str, "version": 3
        }

def test_arrays_in_host_memory():
    a, out = np.ones(16, np.float32), np.zeros(16, np.float32)
    ct.launch(None, (1,), vector_add, (a, a, out))
    assert (out == 2).all()

def test_arrays_on_the_gpu():
    a, out = OnGpu(np.ones(16, np.float32)), OnGpu(np.zeros(16, np.float32))
    ct.launch(None, (1,), vector_add, (a, a, out))
    assert (out.array == 2).all()
"""


def test_a_projects_cutile_tests_are_launched_on_the_gpu(machine, tmp_path):
    pytest.importorskip("cuda.tile")
    (tmp_path / "test_it.py").write_text(CUTILE_TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--cutile-backend=gpu"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert len(machine.calls("cuLaunchKernel")) == 2 and len(machine.calls("cuMemAlloc")) == 2


def test_checks_of_cutile_tests_are_refused_on_the_gpu():
    options = SimpleNamespace(cutile_backend="gpu", cutile_gpu=None, cutile_check="full")
    with pytest.raises(pytest.UsageError, match="--cutile-backend: the gpu checks nothing"):
        pytest_load_initial_conftests(SimpleNamespace(known_args_namespace=options))


def test_an_address_is_passed_as_it_is(machine):
    held = np.zeros(24, np.uint8)  # stands for memory that something else keeps on the device
    libtile.run(SCALARS.encode(), args=[1, 7, 0, 0, 0, 0, held.ctypes.data], backend="gpu")
    assert held[:2].tolist() == [1, 7]
    assert machine.calls("cuMemAlloc") == []


def test_what_the_kernel_prints_is_the_runs_output(machine, capfd):
    result = libtile.run(SCALARS.encode(), args=[0] * 6 + [np.zeros(24, np.uint8)], backend="gpu")
    assert (result.output, result.blocks) == ("hello from scalars\n", 1)
    assert capfd.readouterr().out == ""


def test_what_a_kernel_printed_before_a_fault_is_shown(machine):
    machine.set(fail="cuCtxSynchronize:700")
    out = io.StringIO()
    with pytest.raises(GpuFault) as fault:
        libtile.run(SCALARS.encode(), args=[0] * 6 + [np.zeros(24, np.uint8)], backend="gpu", out=out)
    assert fault.value.output == out.getvalue() == "hello from scalars\n"


def test_a_fault_is_named_and_the_context_made_anew(machine):
    machine.set(fail="cuCtxSynchronize:700")
    with pytest.raises(GpuFault, match="vector_add on Fake 40: cuCtxSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS"):
        add()
    assert machine.calls()[-3:] == ["reset 40", "release 40", "retain 40"]
    machine.set(fail="")
    assert (add() == 1).all()


def test_a_context_that_others_use_is_left_as_it_is(machine):
    machine.set(active=1, fail="cuCtxSynchronize:700")
    with pytest.raises(GpuFault, match="cuCtxSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS"):
        add()
    assert machine.calls("reset", "release") == []


def test_a_context_in_which_others_have_memory_is_left_as_it_is(machine):
    held = np.zeros(24, np.uint8)
    libtile.run(SCALARS.encode(), args=[1, 7, 0, 0, 0, 0, held.ctypes.data], backend="gpu")
    machine.set(fail="cuCtxSynchronize:700")
    with pytest.raises(GpuFault, match="cuCtxSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS"):
        add()
    assert machine.calls("reset", "release") == []


def test_what_is_no_fault_leaves_the_context_as_it_is(machine):
    machine.set(fail="cuLaunchKernel:701")
    with pytest.raises(GpuFault, match="cuLaunchKernel: CUDA_ERROR"):
        add()
    assert machine.calls("reset", "cuMemFree", "cuModuleUnload") == ["cuMemFree "] * 3 + ["cuModuleUnload 8"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"devices": 0}, "the CUDA driver sees no devices"),
        ({"fail": "cuInit:100"}, "the CUDA driver does not start: cuInit: CUDA_ERROR_OF_SOME_KIND"),
    ],
)
def test_a_machine_without_a_gpu_is_told_apart(machine, settings, message):
    machine.set(**settings)
    with pytest.raises(GpuUnavailableError, match=message):
        add()


def test_a_machine_without_a_driver_is_told_what_does_without(machine, monkeypatch, tmp_path):
    for name in (tmp_path / "none.so", "libm.so.6"):
        monkeypatch.setenv(CUDA_DRIVER.name, str(name))
        cuda_driver.default_driver.cache_clear()
        with pytest.raises(GpuUnavailableError, match=r"no CUDA driver: .*none\.so|the CUDA driver has no cuInit"):
            add()


@pytest.mark.parametrize(
    ("capability", "name"),
    [(80, "sm_80"), (86, "sm_86"), (89, "sm_89"), (90, "sm_90"), (100, "sm_100"), (103, "sm_103"), (120, "sm_120")],
)
def test_the_target_is_the_devices_own(machine, capability, name):
    machine.set(capability=capability)
    assert target_name(Device(), None) == name


def test_code_for_another_device_is_refused_before_it_is_compiled(machine):
    with pytest.raises(libtile.LibtileError, match="Fake 40 is sm_90: it does not load code for sm_80"):
        add(gpu_name="sm_80")
    machine.set(capability=75)
    with pytest.raises(libtile.LibtileError, match=r"Fake 40 is sm_75: there is no target of libtile"):
        add()


def test_options_that_the_gpu_does_not_have_are_refused(machine):
    with pytest.raises(libtile.LibtileError, match="no launch ABI 'cuda'"):
        launch_abi(Device(), "cuda")
    with pytest.raises(libtile.LibtileError, match="no checks"):
        add(check="full")
    with pytest.raises(libtile.LibtileError, match="a trace is the interpreter's: the gpu takes none"):
        add(trace=print)


def test_tensor_maps_of_an_ordinary_kernel_have_the_addresses_on_the_device(machine):
    text = Gemm(rows=64, columns=64, stages=2, groups=1, registers="[240, 24]").text.replace("@gemm", "@maps")
    a, b, out = np.zeros((64, 128), np.float16), np.zeros((128, 64), np.float16), np.zeros((64, 64), np.float32)
    libtile.run(text.encode(), args=[a, b, out, 64, 64, 128], backend="gpu", launch_abi="simt")
    raw = out.tobytes()
    first, second = decode(raw[16:144]), decode(raw[144:272])
    assert (first.address, second.address) == struct.unpack("<QQ", raw[:16]) and first.address != second.address
    assert (first.sizes, first.strides, second.sizes, second.strides) == ((128, 64), (256,), (64, 128), (128,))
    with pytest.raises(LaunchError, match=r"parameter 1 of 'maps': strides .* are not all multiples of 16"):
        libtile.run(text.encode(), args=[a, b, out, 64, 60, 128], backend="gpu", launch_abi="simt")
