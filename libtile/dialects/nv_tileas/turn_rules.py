# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A turn of a pipeline: a stage that is acquired is written once and committed, one that is waited for is read and
released. Each follows the token, as far as it is known where it goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Block, Operation, SSAValue, Use
from xdsl.utils.exceptions import VerifyException

from libtile.dialects import scf
from libtile.dialects.nv_tileas.iterator_rules import roots

_PIPELINE = "nv_tileas.async.pipeline."
ACQUIRE, WRITE, COMMIT = (_PIPELINE + name for name in ("producer_acquire", "producer_write", "producer_commit"))
WAIT, READ = (_PIPELINE + name for name in ("consumer_wait", "consumer_read"))
YIELD = _PIPELINE + "yield"
TURNS = tuple(_PIPELINE + name for name in ("produce_one", "consume_one"))


def check_same_turn(token: SSAValue, iterator: SSAValue) -> None:
    """A stage is written and read through the iterator by which it was granted; VerifyException."""
    granted = _turn_of(token)
    if granted is not None and granted.operands[1] is not iterator:
        raise VerifyException("expects the iterator by which the stage was granted")


def check_once(token: SSAValue, by: str, word: str) -> None:
    """A turn is written once, and ends once, by whichever of its tokens; VerifyException."""
    granted = _turn_of(token)
    tokens = [token] if granted is None else [granted.results[0]]
    found: list[Operation] = []
    while tokens:
        at = tokens.pop()
        for use in at.uses:
            user, parent = use.operation, use.operation.parent_op()
            if user.name == by:
                found.append(user)
                if _is_repeated(user, at):
                    raise VerifyException(
                        f"expects a turn to be {word} once, but it is in a loop that does not begin it"
                    )
            if user.name in (WRITE, READ):
                tokens.append(user.results[0])
            elif isinstance(user, scf.YieldOp) and isinstance(parent, scf.IfOp):
                tokens.append(parent.results[use.index])
    if any(not _are_exclusive(a, b) for n, a in enumerate(found) for b in found[:n]):
        raise VerifyException(f"expects a turn to be {word} once, but it is {len(found)} times")


def check_committed(token: SSAValue) -> None:
    """A turn that was written is committed somewhere, by whichever of its tokens; VerifyException."""
    granted = _turn_of(token)
    users = {use.operation.name for use in _uses(token if granted is None else granted.results[0])}
    if COMMIT not in users and users <= _KNOWN:
        raise VerifyException("expects the turn to be committed, but its token goes to no commit")


def check_written(token: SSAValue) -> None:
    """A turn is committed by the token of its write; VerifyException."""
    if any(isinstance(root.owner, Operation) and root.owner.name == ACQUIRE for root in roots(token)):
        raise VerifyException("expects the token of a stage that was written, but it was only acquired")


def check_read(token: SSAValue) -> None:
    """A turn is released whose stage was read, if it holds anything, by whichever of its tokens; VerifyException."""
    for root in roots(token):
        granted = root.owner
        if not isinstance(granted, Operation) or granted.name != WAIT or not _holds_values(root):
            continue
        users = {use.operation.name for use in _uses(root)}
        if READ not in users and users <= _KNOWN:
            raise VerifyException("expects the token of a stage that was read, but it was only waited for")


def _holds_values(token: SSAValue) -> bool:
    return bool(getattr(token.type, "element_types", ()))


_KNOWN = {
    WRITE,
    COMMIT,
    READ,
    _PIPELINE + "consumer_release",
    YIELD,
    "scf.for",
    "scf.while",
    "scf.condition",
    "scf.yield",
}
"""Ops of which it is known what becomes of a token there."""


def _turn_of(token: SSAValue) -> Operation | None:
    """The op that granted a token's stage; None when that is not known here."""
    owner = token.owner
    while isinstance(owner, Operation) and owner.name in (WRITE, READ):
        owner = owner.operands[0].owner
    return owner if isinstance(owner, Operation) and owner.name in (ACQUIRE, WAIT) else None


def _uses(token: SSAValue) -> Iterator[Use]:
    """The uses of a turn's tokens, wherever control flow takes them."""
    seen, work = {token}, [token]
    while work:
        for use in work.pop().uses:
            yield use
            user = use.operation
            following = [user.results[0]] if user.name in (WRITE, READ) else handed_on(user, use.index)
            work += [value for value in following if value not in seen]
            seen.update(following)


def handed_on(op: Operation, index: int) -> Sequence[SSAValue]:
    """The values that an operand of an op is at other places of control flow."""
    parent = op.parent_op()
    match op:
        case scf.ForOp() if index >= 3:
            return op.body.block.args[index - 2], op.results[index - 3]
        case scf.WhileOp():
            return (op.before_region.block.args[index],)
        case scf.ConditionOp() if index and isinstance(parent, scf.WhileOp):
            return parent.results[index - 1], parent.after_region.block.args[index - 1]
        case scf.YieldOp():
            match parent:
                case scf.ForOp():
                    return parent.body.block.args[index + 1], parent.results[index]
                case scf.WhileOp():
                    return (parent.before_region.block.args[index],)
                case scf.IfOp():
                    return (parent.results[index],)
    if op.name == YIELD and parent is not None:
        if parent.name in TURNS:
            return (parent.results[index],)
        if parent.name in (WRITE, READ):
            return (parent.results[index + 1],)
    return ()


def _are_exclusive(a: Operation, b: Operation) -> bool:
    """Whether two ops stand in the arms of one branch, of which one runs."""
    around = dict(_branches(a))
    return any(around.get(branch, arm) != arm for branch, arm in _branches(b))


def _branches(op: Operation) -> Iterator[tuple[Operation, int]]:
    """The branches around an op, and in which arm of each it stands."""
    block = op.parent
    while block is not None and (parent := block.parent_op()) is not None:
        if isinstance(parent, scf.IfOp) and block.parent is not None:
            yield parent, parent.regions.index(block.parent)
        block = parent.parent


def _is_repeated(user: Operation, value: SSAValue) -> bool:
    """Whether a loop runs an op again with a value from outside of it."""
    block, at = value.owner if isinstance(value.owner, Block) else value.owner.parent, user
    while at.parent is not block and (parent := at.parent_op()) is not None:
        if isinstance(parent, scf.ForOp | scf.WhileOp):
            return True
        at = parent
    return False
