# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rules of modules and kernels (Tile IR specification, section Operations: module, entry)."""

from __future__ import annotations

from typing import cast

from libtile.dialects.cuda_tile.forms import CudaTileOp, TileType
from libtile.dialects.cuda_tile.verify.debug_info import verify_body_scopes, verify_function_scope, verify_module_scopes
from libtile.dialects.cuda_tile.verify.hints import verify_hints
from libtile.dialects.cuda_tile.verify.report import Report, fail, region_rule, rule
from libtile.ir.forms import FunctionType


@rule("module")
def module(op: CudaTileOp, report: Report) -> None:
    verify_module_scopes(op)


@rule("entry")
def entry(op: CudaTileOp, report: Report) -> None:
    type_ = cast(FunctionType, op.properties["function_type"])
    if type_.outputs.data:
        fail(op, "entry op must not return values")
    if any(isinstance(t, TileType) and t.rank for t in type_.inputs.data):
        fail(op, "entry op must have scalar types (rank 0 !cuda_tile.tile)")
    verify_function_scope(op)
    verify_hints(op, report)


@region_rule("entry")
def entry_body(op: CudaTileOp, report: Report) -> None:
    verify_body_scopes(op)
