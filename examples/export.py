# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the .bc file of every example beside its source:  python examples/export.py [NAME ...]

Needs the `cuda-tile` package; no GPU.  The files are the same on every machine, because the debug information
is made to name `examples/NAME.py` rather than where the source happens to lie.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import cuda.tile as ct  # noqa: E402
from cuda.tile._passes import ast2hir  # noqa: E402
from cuda.tile.compilation import CallingConvention, KernelSignature, export_kernel  # noqa: E402

#: Example name -> the bytecode version of its .bc: the lowest that can hold it.
VERSIONS = {
    "vector_add": "13.1",
    "gemm": "13.1",
    "softmax": "13.1",
    "layer_norm": "13.1",
    "attention": "13.1",
    "histogram": "13.1",
    "transpose": "13.1",
    "prefix_sum": "13.1",
}
#: Versions before 13.3 name the architecture that their optimization hints are for.
GPU_CODE = "sm_90"


@contextlib.contextmanager
def portable_file_names() -> Iterator[None]:
    """Inside, the frontend writes file names relative to the repository, or to the folder that packages lie in.

    The frontend copies the file name of each function that it compiles, its own library's too, into the debug
    information, as `inspect.getfile` tells it.
    """
    packages = Path(str(ct.__file__)).resolve().parents[2]

    def getfile(function: object) -> str:
        path = Path(inspect.getfile(function)).resolve()  # type: ignore[arg-type]
        for folder in (packages, ROOT):  # a virtual environment may lie inside of the repository
            if path.is_relative_to(folder):
                return path.relative_to(folder).as_posix()
        return path.name

    stand_in = ModuleType("inspect")
    vars(stand_in).update(vars(inspect), getfile=getfile)
    ast2hir.inspect = stand_in  # type: ignore[attr-defined]
    try:
        yield
    finally:
        ast2hir.inspect = inspect  # type: ignore[attr-defined]


def export_example(name: str) -> bytes:
    """The bytecode of `examples/NAME.py`: its `KERNEL` with its `PARAMETERS`, entry point `NAME`."""
    module = importlib.import_module(f"examples.{name}")
    signature = KernelSignature(module.PARAMETERS, CallingConvention.cutile_python_v1(), symbol=name)
    output = io.BytesIO()
    with portable_file_names():
        export_kernel(
            module.KERNEL,
            [signature],
            output,
            gpu_code=GPU_CODE,
            output_format="tileir_bytecode",
            bytecode_version=VERSIONS[name],
        )
    return output.getvalue()


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in VERSIONS]
    if unknown:
        print(f"error: no example named {', '.join(unknown)}; there are {', '.join(VERSIONS)}", file=sys.stderr)
        return 1
    for name in names or VERSIONS:
        path = ROOT / "examples" / f"{name}.bc"
        path.write_bytes(export_example(name))
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes, version {VERSIONS[name]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
