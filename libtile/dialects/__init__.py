# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The dialects of the toolchain, on xDSL."""
