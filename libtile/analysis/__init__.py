# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What can be known of a cuda_tile program's values before it runs."""

from libtile.analysis.dataflow import Facts

__all__ = ["Facts"]
