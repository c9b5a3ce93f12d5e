# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels written in cuTile Python, with inputs and independently computed results.  See `kernels.corpus`."""
