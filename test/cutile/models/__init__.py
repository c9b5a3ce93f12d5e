# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of cuTile as models have them, each with a launch and numpy's answer (`problems`)."""
