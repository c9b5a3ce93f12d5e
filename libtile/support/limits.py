# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How much a program takes from outside."""

INPUT_BYTES = 1 << 28
"""Longest file, or stdin, that is read. What compiles has some megabytes; devices such as /dev/zero have no end."""

TEXT_BYTES = 1 << 26
"""Longest text that is parsed, which takes some fifty times as much memory."""
