# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops of nv_tileaa that carry order, lifetime and facts."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr, i1
from xdsl.ir import Attribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_region_def,
    opt_result_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from libtile.dialects.effect_traits import Observable
from libtile.dialects.interfaces import Folds, FreshToken, JoinsTokens, NamesMemoryOf, Partial, StatesFact
from libtile.dialects.nv_tileaa.assumptions import PredicateAttr
from libtile.dialects.nv_tileaa.contracts import require_token_result, require_yields
from libtile.dialects.nv_tileaa.terminators import check_region_ends
from libtile.ir.tile_form import TileOp, element_of, is_token, tile_op, type_text


def require_token(type_: Attribute) -> None:
    """VerifyException unless a type is that of tokens."""
    if not is_token(type_):
        raise VerifyException(f"expects a mem_token, but got {type_text(type_)}")


@tile_op
class CreateMemTokenOp(TileOp):
    """A token that orders nothing yet."""

    name = "nv_tileaa.create_mem_token"
    result = result_def()
    traits = traits_def(Pure(), FreshToken())

    def check(self) -> None:
        require_token(self.result.type)


@tile_op
class JoinMemTokenOp(TileOp):
    """A token behind all of the operands; without operands it orders nothing."""

    name = "nv_tileaa.join_mem_token"
    tokens = var_operand_def()
    result = result_def()
    traits = traits_def(Pure(), JoinsTokens())

    def check(self) -> None:
        for value in [*self.tokens, self.result]:
            require_token(value.type)


class TokenStep(TileOp):
    """Base: an effect without a value, somewhere in the order of tokens."""

    traits = traits_def(Observable())
    token = opt_operand_def()
    result_token = opt_result_def()

    def check(self) -> None:
        for value in [*self.operands, *self.results]:
            require_token(value.type)
        require_token_result(self)


@tile_op
class GdcLaunchDependentsOp(TokenStep):
    """Lets kernels that depend on this one start (programmatic dependent launch)."""

    name = "nv_tileaa.gdc_launch_dependents"


@tile_op
class GdcWaitOp(TokenStep):
    """Waits for the kernels that this one depends on, and for their memory (programmatic dependent launch)."""

    name = "nv_tileaa.gdc_wait"


@tile_op
class MemoryFenceAliasOp(TokenStep):
    """Orders accesses before it with those behind it through other names of the same memory."""

    name = "nv_tileaa.memory_fence_alias"


@tile_op
class MarkForReuseOp(TileOp):
    """Says that values live on up to here, beyond their last use, so that their buffers are not given away."""

    name = "nv_tileaa.mark_for_reuse"
    traits = traits_def(Observable())
    values = var_operand_def()


@tile_op
class AssertOp(TileOp):
    """Stops the kernel with a message where a condition is false."""

    name = "nv_tileaa.assert"
    traits = traits_def(Observable())
    condition = operand_def()
    message = prop_def(StringAttr)

    def check(self) -> None:
        if element_of(self.condition.type) != i1:
            raise VerifyException(f"expects a condition of i1, but got {type_text(self.condition.type)}")


@tile_op
class AssumeOp(TileOp):
    """The value, with facts about it that passes may rely on. The first predicate that does not fit is reported."""

    name = "nv_tileaa.assume"
    value = operand_def()
    result = result_def()
    predicates = prop_def(ArrayAttr)
    traits = traits_def(Pure(), Partial(), StatesFact(), Folds("same"), NamesMemoryOf("value"))

    def check(self) -> None:
        if self.value.type != self.result.type:
            raise VerifyException("expects value and result to have the same type")
        for predicate in self.predicates.data:
            if not isinstance(predicate, PredicateAttr):
                raise VerifyException(f"expects predicates, but got {predicate}")
            predicate.check(self.value.type)


@tile_op
class OptimizationBarrierOp(TileOp):
    """The values, of which passes know nothing: no computation moves across, none is folded through."""

    name = "nv_tileaa.optimization_barrier"
    traits = traits_def(Observable())
    values = var_operand_def()
    outputs = var_result_def()

    def check(self) -> None:
        if [v.type for v in self.values] != [r.type for r in self.results]:
            raise VerifyException("expects operands and results to have the same types")


@tile_op
class PragmaOp(TileOp):
    """Directives for the optimizer, for the code in the region or from here on."""

    name = "nv_tileaa.pragma"
    traits = traits_def(Observable())
    directives = prop_def(DictionaryAttr)
    body = opt_region_def()

    def check(self) -> None:
        check_region_ends(self)
        require_yields(self, [])


@tile_op
class MessageOp(TileOp):
    """A message of the compiler to the user, emitted as a remark when the op is lowered."""

    name = "nv_tileaa.message"
    traits = traits_def(Observable())
    text = prop_def(StringAttr)


@tile_op
class PrintOp(TileOp):
    """Prints values at run time. `format` is that of C's printf, with one conversion per value."""

    name = "nv_tileaa.print"
    traits = traits_def(Observable())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    values = var_operand_def()
    token = opt_operand_def()
    result_token = opt_result_def()
    format = prop_def(StringAttr)
    flags = opt_prop_def(DictionaryAttr)

    def check(self) -> None:
        require_token_result(self)
