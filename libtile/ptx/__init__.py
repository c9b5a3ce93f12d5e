# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reading PTX: its tokens (`lexer`), and as records what a module declares and what stands on a line (`reader`).

The simulator reads whole modules, by the same tokens, to run them.
"""
