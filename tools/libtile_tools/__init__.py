# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command-line tools: each parses its options and calls the library."""
