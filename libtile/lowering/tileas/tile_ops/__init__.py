# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decisions about single ops on tiles: conversions, reductions and scans, comparisons."""
