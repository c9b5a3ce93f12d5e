# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the .bc file of every example beside its source:  python examples/export.py [NAME ...]

Needs the `cuda-tile` package; no GPU.  The files are the same on every machine, because the debug information
is made to name `examples/NAME.py` rather than where the source happens to lie.
"""

from __future__ import annotations

import importlib
import io
import linecache
import sys
from pathlib import Path
from types import FunctionType, ModuleType

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import cuda.tile as ct  # noqa: E402
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


def name_sources_relative(module: ModuleType) -> None:
    """Make the functions of `module` say that they come from its path relative to the repository.

    The frontend copies a function's file name into the debug information.  Functions defined inside other
    functions follow the outermost one.
    """
    path = Path(str(module.__file__)).resolve()
    name = path.relative_to(ROOT).as_posix()
    text = path.read_text(encoding="utf-8")
    # inspect.findsource asks linecache for a file that does not exist under this name; no mtime means "do not check".
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    for value in list(vars(module).values()):
        function = value._annotated_function.pyfunc if isinstance(value, ct.kernel) else value
        while hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        if isinstance(function, FunctionType) and function.__module__ == module.__name__:
            function.__code__ = function.__code__.replace(co_filename=name)


def export_example(name: str) -> bytes:
    """The bytecode of `examples/NAME.py`: its `KERNEL` with its `PARAMETERS`, entry point `NAME`."""
    module = importlib.import_module(f"examples.{name}")
    name_sources_relative(module)
    signature = KernelSignature(module.PARAMETERS, CallingConvention.cutile_python_v1(), symbol=name)
    output = io.BytesIO()
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
