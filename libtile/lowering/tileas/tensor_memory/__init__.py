# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Agents around products whose sums lie in tensor memory (tcgen05)."""
