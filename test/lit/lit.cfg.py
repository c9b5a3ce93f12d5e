# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""lit's configuration: every .mlir file below is a test, run with this checkout's tools.

Run it alone with `lit test/lit`, or with all others through pytest (test/test_lit.py).
"""

import os
import shlex
import sys
import tempfile
from pathlib import Path

import lit.formats

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

config.name = "libtile"  # noqa: F821
config.test_format = lit.formats.ShTest()  # noqa: F821
config.suffixes = [".mlir"]  # noqa: F821
config.test_source_root = str(HERE)  # noqa: F821
config.test_exec_root = os.environ.get("LIBTILE_LIT_OUT") or tempfile.mkdtemp(prefix="libtile-lit-")  # noqa: F821
config.environment["PYTHONPATH"] = str(ROOT)  # noqa: F821

python = shlex.quote(sys.executable)
tools = {
    "cuda-tile-opt": "-m cuda_tile_opt",
    "cuda-tile-translate": "-m cuda_tile_translate",
    "tileirdisasm": "-m tileirdisasm",
    "FileCheck": shlex.quote(str(ROOT / "test" / "conformance" / "filecheck_main.py")),
}
for name, command in tools.items():
    config.substitutions.append((rf"\b{name}\b(?![-./])", f"{python} {command}"))  # noqa: F821
