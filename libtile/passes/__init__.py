# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The pass manager: the registry of all passes, and pipelines of them."""
