# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`on_host` for the Python processes that this one starts, by their environment.

Tests run scripts: cuTile's own run its samples so. `LIBTILE_CUTILE` in a process's environment, with the folder
`children` on its PYTHONPATH, lets `on_host` begin there once torch or cuTile have been imported, for good.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from unittest import mock

VARIABLE = "LIBTILE_CUTILE"
_CHILDREN = str(Path(__file__).resolve().parent / "children")
_FIRST = ("torch", "cuda.tile")
"""What a process has to import before a kernel can be launched, or its GPU asked for."""


@contextmanager
def children_on_host(backend: str, gpu_name: str, check: str | None) -> Iterator[None]:
    """Within, the Python processes that are started run `ct.launch` as `on_host` with these options does."""
    path = os.pathsep.join(filter(None, [_CHILDREN, os.environ.get("PYTHONPATH", "")]))
    options = json.dumps({"backend": backend, "gpu_name": gpu_name, "check": check})
    with mock.patch.dict(os.environ, {VARIABLE: options, "PYTHONPATH": path}):
        yield


def take_over_when_imported(options: str) -> None:
    """Begin `on_host` with the options of `children_on_host`, when torch or cuTile has been imported."""
    sys.meta_path.insert(0, _Finder(options))


class _Finder(MetaPathFinder):
    """Finds nothing itself: has the module that is waited for found by the others, and watches its loading."""

    def __init__(self, options: str) -> None:
        self.options = options

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _FIRST:
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                watched = _Watched(spec.loader, self.options)
                spec.loader = watched
                return spec
        return None


class _Watched(Loader):
    """Loads a module as its own loader does, and then begins `on_host`."""

    def __init__(self, loader: Loader, options: str) -> None:
        self.loader = loader
        self.options = options

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        assert spec is not None  # the one that this loader was found by
        spec.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        _begin(self.options)


_begun = ExitStack()
"""What ends with the process."""


def _begin(options: str) -> None:
    from libtile.cutile.replacement import on_host

    _begun.enter_context(on_host(**json.loads(options)))
