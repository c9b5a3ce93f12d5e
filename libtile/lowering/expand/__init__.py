# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Passes over modules of the inner dialects that were written, and hold ops and calls that Tile IR never makes."""
