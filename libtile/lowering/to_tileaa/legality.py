# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `convert-cuda-tile-to-tileaa` takes: the ops of cuda_tile that have a rule, in the functions of a module."""

from __future__ import annotations

from xdsl.ir import Operation

from libtile.dialects.cuda_tile.attributes import OUTSIDE_ATTRIBUTE
from libtile.dialects.cuda_tile.ops import OPS, CudaTileOp
from libtile.dialects.cuda_tile.types import PointerType, TensorViewType, TileType, TileViewType, TokenType
from libtile.lowering.discardable import INTEGER, OUTSIDE_DIMENSIONS, Declared
from libtile.lowering.legality import NUMBERS, Stage
from libtile.lowering.to_tileaa.context import RULES

TOP_LEVEL = (OPS["entry"], OPS["global"])
"""What a module that is compiled holds."""

STRUCTURE: frozenset[type[Operation]] = frozenset(
    {*TOP_LEVEL, *(OPS[name] for name in ("break", "continue", "return", "yield"))}
)
"""Ops that have no rule of their own: what a module holds, and the ends of regions, which the ops around them read."""

REFUSED = {"preview$call": "calls a function that is not part of the module"}
"""Ops of released or preview versions that cannot be compiled, with the reason."""

UNREAD: dict[tuple[str, str], str] = {
    ("entry", "arg_attrs"): "facts about parameters; a remark says that nothing uses them",
    ("entry", "res_attrs"): "a kernel has no results",
    ("entry", "function_type"): "repeats the types of the body's arguments",
}
"""Declared attributes, by op, that the conversion reads nothing of, with the reason why nothing is lost."""


def _problem(op: Operation) -> str | None:
    return REFUSED.get(op.spec.name) if isinstance(op, CudaTileOp) else None


STAGE = Stage(
    "cuda_tile",
    types=(TileType, TokenType, TensorViewType, TileViewType),
    elements=(*NUMBERS, PointerType),
    ops=STRUCTURE | {OPS[name] for name in REFUSED},
    rules=RULES,
    problem=_problem,
    attributes={
        "cuda_tile.loop_split": Declared((OPS["entry"], OPS["for"], OPS["if"]), INTEGER),
        OUTSIDE_ATTRIBUTE: Declared((OPS["load_view_tko"], OPS["store_view_tko"]), OUTSIDE_DIMENSIONS),
    },
)
"""What the conversion takes."""
