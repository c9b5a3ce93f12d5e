# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`convert-tileas-to-llvm`: walks a kernel in nv_tileas and emits LLVM IR, op by op."""
