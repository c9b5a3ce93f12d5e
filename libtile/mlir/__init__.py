# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules in MLIR proper, and back, over MLIR's own Python API, wherever that comes from.

from jaxlib.mlir import ir            # or iree.compiler.ir, or mlir.ir
from libtile import mlir

module = mlir.to_mlir(libtile.read("kernel.bc"), ir)      # an ir.Module
libtile.write(mlir.from_mlir(module, ir))                 # the same bytecode
"""

from libtile.mlir.bindings import new_context
from libtile.mlir.exchange import PASSES, from_mlir, run_passes, to_mlir
from libtile.mlir.llvm_dialect import llvm_to_mlir

__all__ = ["PASSES", "from_mlir", "llvm_to_mlir", "new_context", "run_passes", "to_mlir"]
