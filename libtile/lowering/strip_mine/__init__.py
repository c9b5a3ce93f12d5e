# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`strip-mine`: tiles that the registers of a thread block cannot hold are worked through in pieces, by loops."""
