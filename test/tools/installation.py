# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An installation of this tree that is a test's own: nobody else changes a file of it while the test runs."""

from __future__ import annotations

import os
import shutil
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

from tools.process import ROOT

_PACKAGES = ("site-packages", "dist-packages")


@dataclass(frozen=True)
class Installation:
    """A virtual environment with copies of the package and its tools.

    What they depend on comes from where the running Python has it, by links of other names: whoever looks at the folder
    of packages (as a compile server does) looks at this installation's, where nothing is installed meanwhile.
    """

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def tree(self) -> Path:
        """The folder with `libtile`, `tools` and `spec`."""
        return self.folder / "tree"

    @property
    def packages(self) -> Path:
        (found,) = self.folder.glob("lib/python*/site-packages")
        return found

    def change(self, file: str, before: str, after: str) -> None:
        """Replace what a file of the tree has once."""
        path = self.tree / file
        text = path.read_text(encoding="utf-8")
        assert text.count(before) == 1, (file, before)
        path.write_text(text.replace(before, after), encoding="utf-8")


def install(folder: Path) -> Installation:
    """An installation in a folder that is not there yet."""
    venv.create(folder, symlinks=True)
    made = Installation(folder)
    for name in ("libtile", "tools", "spec"):
        # Of compiled code, Python's files are of use elsewhere, but not the tools' bundles, which name places, nor what
        # is just being written.
        shutil.copytree(ROOT / name, made.tree / name, ignore=shutil.ignore_patterns("*.bundle*", "*.pyc.*"))
    places = [made.tree, made.tree / "tools"]
    for number, packages in enumerate(path for path in sys.path if os.path.basename(path) in _PACKAGES):
        places.append(folder / f"packages{number}")
        places[-1].symlink_to(packages)
    (made.packages / "tree.pth").write_text("".join(f"{place}\n" for place in places), encoding="utf-8")
    shutil.copy(made.tree / "tools" / "_interrupts_libtile.pth", made.packages)
    return made
