# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What tokens of memory stand for, for every op that gives one: nothing, what is joined, what control flow is handed,
or the op's own effects and what it waits for. `analysis.tokens` asks nothing else, and the interpreter has nothing
else: a token is no value there, so that only effects and their order are left of it.
"""

from __future__ import annotations

from xdsl.ir import Operation
from xdsl.traits import get_effects

from dialects.op_programs import names, program
from libtile.dialects.cuda_tile.ops import OPS
from libtile.dialects.effect_traits import accessed, names_memory
from libtile.dialects.interfaces import FreshToken, JoinsTokens, control_flow, is_token
from libtile.ir.tile_form import OP_CLASSES
from libtile.spec import default_spec

STEPS = {
    "nv_tileaa.gdc_launch_dependents", "nv_tileaa.gdc_wait", "nv_tileaa.memory_fence_alias", "nv_tileaa.print",
    "nv_tileas.fence",
}  # fmt: skip
"""Ops that stand in the order of tokens and access no memory that they name."""


def of_tokens(op: Operation) -> str:
    """What the token that an op gives stands for, by what it declares."""
    if op.has_trait(FreshToken):
        assert not any(map(is_token, op.operands)) and get_effects(op) == set()
        return "nothing"
    if op.has_trait(JoinsTokens):
        assert all(map(is_token, op.operands)) and get_effects(op) == set()
        return "what is joined"
    if control_flow(op) is not None:
        return "what is handed on"
    assert get_effects(op), op.name
    assert accessed(op) is not None or op.name in STEPS or op.name.startswith("nv_tileas.async."), op.name
    return "the op's effects"


def test_every_op_that_gives_a_token_says_what_it_stands_for() -> None:
    found: dict[str, str] = {}
    for name in names():
        for op in program(name).walk():
            if any(map(is_token, op.results)):
                found[op.name] = of_tokens(op)
    assert {name for name, what in found.items() if what == "nothing"} == {"nv_tileaa.create_mem_token"}
    assert {name for name, what in found.items() if what == "what is joined"} == {"nv_tileaa.join_mem_token"}


def test_every_op_of_the_inner_dialects_with_a_token_accesses_memory_or_is_a_step() -> None:
    """Whether its sample has one or not."""
    for name, cls in OP_CLASSES.items():
        declared = {result for result, _ in cls.get_irdl_definition().results}
        if "result_token" in declared and not name.startswith("nv_tileas.async."):
            assert names_memory(cls) or name in STEPS, name


NO_NAME = {
    "gdc_launch_dependents_tko", "gdc_wait_tko", "memory_fence_alias_tko", "print_tko",
    "multimem_load_reduce_view_tko", "multimem_reduce_view_tko", "multimem_store_view_tko",
}  # fmt: skip
"""Ops of cuda_tile in the order of tokens that access no memory, or all replicas of some."""


def test_every_op_of_cuda_tile_with_a_token_says_what_it_stands_for() -> None:
    kinds: dict[str, set[str]] = {}
    for name, spec in default_spec().ops.items():
        if default_spec().is_testing_op(spec) or not any(result.constraint == "token" for result in spec.results):
            continue
        traits = {type(trait) for trait in OPS[name].traits}
        kind = "nothing" if FreshToken in traits else "what is joined" if JoinsTokens in traits else "an access"
        kind = "a step" if kind == "an access" and not names_memory(OPS[name]) else kind
        kinds.setdefault(kind, set()).add(name)
    assert kinds.pop("an access") >= {"load_ptr_tko", "store_view_tko", "atomic_rmw_tko"}
    assert kinds == {"nothing": {"make_token"}, "what is joined": {"join_tokens"}, "a step": NO_NAME}
