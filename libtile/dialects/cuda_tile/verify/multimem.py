# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rules of the accesses to multicast objects (since 13.5; found by experiments with the reference disassembler)."""
