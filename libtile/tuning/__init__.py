# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which way of compiling a kernel is best: `tune` measures the configurations of a `Space` and ranks them."""

from libtile.tuning.space import Configuration, Space
from libtile.tuning.sweep import Sweep, tune
from libtile.tuning.trials import Outcome

__all__ = ["Configuration", "Outcome", "Space", "Sweep", "tune"]
