# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Passes of nv_tileas: each decision about a kernel is made by one of them and stands in the IR behind it."""
