# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finding out what is wrong with a program: comparing two of them, and making one smaller that is at fault."""
