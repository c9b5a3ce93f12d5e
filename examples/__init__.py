# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Example kernels in cuTile Python.  See README.md in this folder."""
