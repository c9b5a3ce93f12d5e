# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Python processes that a project's tests start run their kernels with no GPU, too: see `libtile.cutile.processes`.

This folder is on their PYTHONPATH, so that Python imports this module as it starts. Another `sitecustomize` that it
hides is imported behind it.
"""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _others() -> None:
    path = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


_others()
if "LIBTILE_CUTILE" in os.environ:
    from libtile.cutile.processes import take_over_when_imported

    take_over_when_imported(os.environ["LIBTILE_CUTILE"])
