# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Running kernels, on any backend, with one signature."""

from libtile.runtime.run import BACKENDS, run

__all__ = ["BACKENDS", "run"]
