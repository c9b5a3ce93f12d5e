# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The table of rules: complete, and the errors of ops that cannot run."""

from __future__ import annotations

import pytest

from libtile.interpreter.codegen import _STRUCTURE
from libtile.interpreter.rules import pure
from libtile.interpreter.table import RULES
from libtile.spec import default_spec

#: Ops that hold others, declare something, or need what a single device does not have.
NOT_RUN = {"module", "entry", "global", "preview$call"}


def test_every_op_of_the_dialect_has_a_rule():
    spec = default_spec()
    declared = {name for name, op in spec.ops.items() if not spec.is_testing_op(op)}
    covered = set(RULES) | set(_STRUCTURE) | {"constant"} | NOT_RUN
    assert declared - covered == set(), "give these a rule in libtile/interpreter, or a reason in NOT_RUN"
    assert covered - declared == set(), "these are not ops of the dialect"


def test_an_op_has_one_rule():
    with pytest.raises(ValueError, match="two rules for addi"):
        pure("addi")(lambda site: lambda: None)


def test_an_op_without_a_meaning_here_is_refused_by_name():
    from xdsl.dialects.builtin import ArrayAttr, FunctionType
    from xdsl.ir import Block

    import libtile
    from libtile.dialects.cuda_tile.ops import build

    call = build("preview$call", attributes={"callee": "f", "const_args": ArrayAttr([])})
    signature = {"sym_name": "k", "function_type": FunctionType.from_lists([], [])}
    entry = build("entry", attributes=signature, regions=[Block([call, build("return")])])
    module = build("module", attributes={"sym_name": "m"}, regions=[Block([entry])])
    with pytest.raises(libtile.LibtileError, match=r"'cuda_tile\.preview\$call' op unsupported operation"):
        libtile.run(module, verify=False)
