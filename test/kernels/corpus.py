# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The registry of kernels, their export to bytecode, and their launches.

    from kernels import corpus
    for name, kernel in corpus.KERNELS.items():
        for version in kernel.versions:
            data = corpus.export(kernel, version)          # bytecode; gpu_code defaults to the kernel's first target
    case = corpus.case(corpus.KERNELS["softmax"], seed=0)  # grid, flat args, expected(args) -> {index: array}
    before = corpus.snapshot(case.args)
    libtile.run(data, "softmax", grid=case.grid, args=case.args)
    corpus.check_case(case, before, case.args)

Importing this module needs `cuda-tile`; call `pytest.importorskip("cuda.tile")` before it.  The entry point is
named like the kernel.  See `kernels.model` for how parameters are flattened.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.metadata
import io
import os
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from cuda.tile._bytecode.version import BytecodeVersion  # noqa: E402
from cuda.tile._compile import compile_tile  # noqa: E402
from cuda.tile.compilation import CallingConvention, KernelSignature, export_kernel  # noqa: E402

from examples.export import portable_file_names  # noqa: E402
from kernels.model import (  # noqa: E402
    VERSIONS,
    Case,
    Kernel,
    Problem,
    Tolerance,
    as_mapping,
    check_case,
    make_case,
    mismatch,
    snapshot,
)
from kernels.refused import REFUSED as _refused  # noqa: E402

__all__ = [
    "KERNELS", "REFUSED", "VERSIONS", "Case", "Kernel", "Problem", "Tolerance",
    "case", "check_case", "export", "export_together", "mismatch", "select", "snapshot",
]  # fmt: skip

MODULES = (
    "from_examples",
    "integers",
    "floats",
    "math_functions",
    "casts",
    "mma",
    "reductions",
    "shapes",
    "memory",
    "atomics",
    "control",
    "misc",
    "applications",
)

_CONVENTIONS = {1: CallingConvention.cutile_python_v1, 2: CallingConvention.cutile_python_v2}

KERNELS: dict[str, Kernel] = {}
for _module_name in MODULES:
    _module = importlib.import_module(f"kernels.{_module_name}")
    KERNELS.update(as_mapping([*KERNELS.values(), *_module.KERNELS]))


#: Kernels whose bytecode the reference tools refuse, by name, with the gist of what they say.
REFUSED: dict[str, tuple[Kernel, str]] = {kernel.name: (kernel, gist) for kernel, gist in _refused}


def select(*tags: str) -> list[Kernel]:
    """The kernels that have all of the tags."""
    return [kernel for kernel in KERNELS.values() if kernel.tags.issuperset(tags)]


def case(kernel: Kernel, seed: int = 0) -> Case:
    """A launch of the kernel, made from `seed`.  ValueError if it cannot be launched by a test."""
    return make_case(kernel, seed)


def export(kernel: Kernel, version: str = "13.3", gpu_code: str | None = None) -> bytes:
    """The bytecode of one kernel.

    Version 13.5 is not offered by the frontend's public export; its writer has it, and is called directly.
    Raises what the frontend raises when it refuses.  Results are kept on disk, named by what went in.
    """
    return _export(kernel.name, version, gpu_code or kernel.gpu_code)


@functools.cache
def _export(name: str, version: str, gpu_code: str) -> bytes:
    key = hashlib.sha256(f"{_fingerprint()} {name} {version} {gpu_code}".encode()).hexdigest()[:32]
    path = _cache_folder() / f"{key}.bc"
    if path.exists():
        return path.read_bytes()
    kernel = KERNELS[name] if name in KERNELS else REFUSED[name][0]
    data = run_frontend(kernel, version, gpu_code)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(data)
    os.replace(file.name, path)
    return data


def run_frontend(kernel: Kernel, version: str, gpu_code: str) -> bytes:
    """`export` without its cache."""
    return export_together([kernel], version, gpu_code)


def export_together(kernels: Sequence[Kernel], version: str, gpu_code: str) -> bytes:
    """One file with an entry for each of several kernels that are made from the same Python function.

    ValueError if they are not.
    """
    function, options = kernels[0].function._annotated_function, kernels[0].function._compiler_options
    if any(kernel.function is not kernels[0].function for kernel in kernels):
        raise ValueError("the kernels come from different Python functions")
    signatures = [
        KernelSignature(kernel.parameters, _CONVENTIONS[kernel.calling_convention](), symbol=kernel.name)
        for kernel in kernels
    ]
    with warnings.catch_warnings(), portable_file_names():
        warnings.filterwarnings("ignore", message="num_worker_warps is ignored")
        if version == "13.5":
            result = compile_tile(
                function,
                signatures,
                sm_arch=gpu_code,
                compiler_options=options,
                return_bytecode=True,
                return_cubin=False,
                bytecode_version=BytecodeVersion.V_13_5,
            )
            return bytes(result.bytecode or b"")
        output = io.BytesIO()
        export_kernel(
            kernels[0].function,
            signatures,
            output,
            gpu_code=gpu_code,
            output_format="tileir_bytecode",
            bytecode_version=version,
        )
    return output.getvalue()


@functools.cache
def _fingerprint() -> str:
    """Changes with any source that an export may depend on, and with the frontend."""
    digest = hashlib.sha256(importlib.metadata.version("cuda-tile").encode())
    for path in sorted((ROOT / "examples").glob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    for name in (*MODULES, "refused", "dtypes"):
        digest.update((Path(__file__).parent / f"{name}.py").read_bytes())
    return digest.hexdigest()


@functools.cache
def _cache_folder() -> Path:
    folder = Path(os.environ.get("LIBTILE_TEST_CACHE", ROOT / ".pytest_cache" / "kernels"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n")
    return folder
