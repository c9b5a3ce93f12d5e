# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Element types as numbers: widths, storage, float formats and their bit patterns, each fact derived from the spec."""
