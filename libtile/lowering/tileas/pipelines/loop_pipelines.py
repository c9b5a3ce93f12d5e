# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `tileas-materialize-schedule` does: a loop with a schedule becomes one whose loads come through a pipeline.

With S stages,

    %pipe = create_pipeline                         the buffers of all stages
    S - 1 times: produce_one                        the first iterations' tiles are on their way
    scf.for ... iter_args(..., %read, %written, ...) {
      %t = consumer_wait %pipe, %read               this iteration's tiles have arrived; S - 2 later ones need not have
      produce_one %pipe, %written                   start those of the iteration S - 1 ahead
      %t1, %a = consumer_read %t, %read             where the load was: read the tile in the layouts that are wanted;
                                                    or where a product is: that, slice by slice (`stage_reads`)
      ...
      consumer_release %tN                          behind the last read
      ... inc_iter %read, inc_iter %written
    }

With one stage the iteration's own tiles are produced in front of the wait: nothing runs ahead, but tiles do not pass
through registers either.

A turn is produced in any case, so that turns count iterations; its copies are under the condition that there is such an
iteration. How many are left is counted down, as the counter of an iteration that does not exist may wrap around.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, TensorType, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from libtile.analysis.tokens import is_fresh
from libtile.dialects import arith, scf
from libtile.dialects.nv_tileaa.tokens import CreateMemTokenOp
from libtile.dialects.nv_tileas import tma
from libtile.dialects.nv_tileas.attributes import CopyAtomAttr
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.memory import LoadOp
from libtile.dialects.nv_tileas.pipeline import (
    ConsumerReadOp,
    ConsumerReleaseOp,
    ConsumerWaitOp,
    CreateIteratorOp,
    CreatePipelineOp,
    IncIterOp,
    PipelineYieldOp,
    ProduceOneOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    ProducerWriteOp,
)
from libtile.dialects.nv_tileas.tiles import BarrierOp, CopyOp
from libtile.dialects.nv_tileas.types import (
    AsyncTokenType,
    BufferType,
    ConsumerTokenType,
    PipelineIteratorType,
    PipelineType,
    ProducerTokenType,
)
from libtile.ir.operands import set_operand
from libtile.ir.tile_form import TileOp, erase
from libtile.layouts import LinearLayout
from libtile.lowering.discardable import ORDER, STAGE, STAGES
from libtile.lowering.errors import unsupported
from libtile.lowering.tileas.ahead import Ahead, computed_ahead
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.pipelines.schedule import LOADS, Load, buffer_layout, conversions
from libtile.lowering.tileas.pipelines.stage_reads import SlicedRead, read_layouts, sliced_reads
from libtile.lowering.to_tileas.types import layout_of
from libtile.targets import Target

_SCHEDULE = (STAGE, ORDER)


def carry_more(loop: scf.ForOp, starts: Sequence[SSAValue], ends: Sequence[SSAValue]) -> scf.ForOp:
    """The loop again, which carries more: values that begin as `starts`, for which its body has arguments already, and
    that a turn hands on as `ends`. The old one is gone."""
    body = loop.body.block
    last = body.last_op
    assert last is not None and loop.parent is not None
    yielded = scf.YieldOp(*last.operands, *ends)
    yielded.location = last.location
    body.insert_op_before(yielded, last)
    erase(last)
    region = loop.detach_region(loop.body)
    new = scf.ForOp.create(
        operands=[*loop.operands, *starts],
        result_types=[*(r.type for r in loop.results), *(v.type for v in starts)],
        attributes=dict(loop.attributes),
        properties=dict(loop.properties),
        regions=[region],
    )
    new.location = loop.location
    loop.parent.insert_op_before(new, loop)
    for before, after in zip(loop.results, new.results):
        after.name_hint = before.name_hint
        before.replace_all_uses_with(after)
    erase(loop)
    return new


def _positive(op: Operation, name: str, least: int = 1) -> int:
    """The number that a schedule says; LoweringError unless it is one."""
    number = op.attributes.get(name)
    if not isinstance(number, IntegerAttr) or number.value.data < least:
        raise unsupported(op, f"has no '{name}' of at least {least}, which its schedule needs")
    return number.value.data


class Pipeline:
    """One loop, its loads, and what the producer carries."""

    def __init__(self, loop: Operation, gpu: Target):
        number = _positive(loop, STAGES)
        if not isinstance(loop, scf.ForOp):
            raise unsupported(loop, f"has '{STAGES}', and only a loop with a counter runs its loads ahead", gpu.name)
        self.loop = loop
        self.stages = number
        self.body = loop.body.block
        found = [op for op in self.body.ops if STAGE in op.attributes]
        loads: list[Load] = []
        for load in found:
            if not isinstance(load, LOADS) or load.attributes[STAGE] != IntegerAttr(0, i64):
                raise unsupported(load, f"has '{STAGE}', which only a load has, and which can be 0 only", gpu.name)
            loads.append(load)
        self.loads = sorted(loads, key=lambda op: _positive(op, ORDER, least=0))
        ahead = computed_ahead(self.loads, self.body)
        if ahead is None or not self.loads:
            raise unsupported(loop, f"has '{STAGES}', and no load in it can run ahead", gpu.name)
        self.ahead: Ahead = ahead
        self.cut = sliced_reads(self.loads, self.body)
        self.type = PipelineType(self.stages, [_buffer(load, self.cut, gpu) for load in self.loads])
        self.iterator = PipelineIteratorType(self.type)

    def make(self) -> None:
        loop, block = self.loop, self.loop.parent
        assert block is not None
        for op in (loop, *self.loads):
            for name in (STAGES, *_SCHEDULE):
                op.attributes.pop(name, None)
        before = Inserter(block, loop, loop.location)
        self.pipe = before.value(CreatePipelineOp.make(results=[self.type]))
        if any(_is_ordered(load) for load in self.loads):
            before.add(BarrierOp.make())
        start = before.value(CreateIteratorOp.make(self.pipe, results=[self.iterator]))
        counter, step = loop.lb, loop.step
        trips = self._trips(before)
        state = [loop.iter_args[number] for number in self.ahead.carried]
        written = start
        for stage in range(self.stages - 1):
            self._produce(before, written, self._more(before, trips, stage), counter, state)
            state = self._next_state(before, counter, state)
            counter = before.value(arith.AddiOp(counter, step))
            written = self._next(before, written)
        self._rebuild([start, written, trips, counter, *state])

    def _rebuild(self, more: Sequence[SSAValue]) -> None:
        """The loop again, carrying more: where it reads, where it writes, how many iterations there are from this one,
        and the counter and the values of the iteration whose loads it starts."""
        old, body = self.loop, self.body
        read, written, left, counter, *state = (body.insert_arg(v.type, len(body.args)) for v in more)
        last = body.last_op
        assert last is not None and body.first_op is not None
        begin = Inserter(body, body.first_op, old.location)
        if self.stages == 1:
            self._produce(begin, written, self._more(begin, left, 0), counter, state)
        token_type = ConsumerTokenType(self.type.element_types)
        token = begin.value(ConsumerWaitOp.make(self.pipe, read, results=[token_type], pending=max(self.stages - 2, 0)))
        if self.stages > 1:
            self._produce(begin, written, self._more(begin, left, self.stages - 1), counter, state)
        ends = Inserter(body, last, old.location)
        given = self._next_state(ends, counter, state)
        self._read_stage(token, read)
        one = ends.value(arith.ConstantOp(self._number(1)))
        carried = [
            self._next(ends, read),
            self._next(ends, written),
            ends.value(arith.SubiOp(left, one)),
            ends.value(arith.AddiOp(counter, old.step)),
            *given,
        ]
        carry_more(old, more, carried)

    def _number(self, value: int) -> IntegerAttr:
        """A number of the type that the loop counts in."""
        type_ = self.body.args[0].type
        assert isinstance(type_, IntegerType | IndexType)
        return IntegerAttr(value, type_)

    # -- counting ---------------------------------------------------------------------------------------------------

    def _trips(self, at: Inserter) -> SSAValue:
        """How many iterations the loop has: as many steps as there are from the lower bound to the upper one."""
        lower, upper, step = self.loop.lb, self.loop.ub, self.loop.step
        unsigned = "unsignedCmp" in self.loop.attributes or "unsignedCmp" in self.loop.properties
        zero, one = (at.value(arith.ConstantOp(self._number(n))) for n in (0, 1))
        some = at.value(arith.CmpiOp(lower, upper, "ult" if unsigned else "slt"))
        distance = at.value(arith.SubiOp(upper, lower))
        # Not (distance + step - 1) / step, which could wrap around.
        steps = at.value(arith.DivUIOp(at.value(arith.SubiOp(distance, one)), step))
        return at.value(arith.SelectOp(some, at.value(arith.AddiOp(steps, one)), zero))

    def _more(self, at: Inserter, left: SSAValue, number: int) -> SSAValue:
        """Whether there are more than so many iterations left."""
        limit = at.value(arith.ConstantOp(self._number(number)))
        return at.value(arith.CmpiOp(left, limit, "ugt"))

    def _next(self, at: Inserter, iterator: SSAValue) -> SSAValue:
        return at.value(IncIterOp.make(iterator, results=[self.iterator]))

    def _values(self, counter: SSAValue, state: Sequence[SSAValue]) -> dict[SSAValue, SSAValue]:
        """What stands for the loop's counter and the carried values in an iteration ahead."""
        values: dict[SSAValue, SSAValue] = {self.body.args[0]: counter}
        values.update((self.body.args[1 + number], v) for number, v in zip(self.ahead.carried, state))
        return values

    def _next_state(self, at: Inserter, counter: SSAValue, state: Sequence[SSAValue]) -> list[SSAValue]:
        """The carried values of the iteration behind one ahead."""
        values = self._values(counter, state)
        at.clone(self.ahead.updates, values)
        last = self.body.last_op
        assert last is not None
        return [values.get(last.operands[number], last.operands[number]) for number in self.ahead.carried]

    # -- turns ------------------------------------------------------------------------------------------------------

    def _produce(
        self, at: Inserter, iterator: SSAValue, wanted: SSAValue, counter: SSAValue, state: Sequence[SSAValue]
    ) -> None:
        """One turn of the producer: the copies of an iteration, if it is wanted."""
        buffers = Block(arg_types=self.type.element_types)
        copies = Block()
        inner = Inserter(copies, None, at.location)
        values = self._values(counter, state)
        inner.clone(self.ahead.ops, values)
        for load, buffer in zip(self.loads, buffers.args):
            start_copy(inner, load, values, buffer)
        inner.add(scf.YieldOp())
        guarded = Inserter(buffers, None, at.location)
        guarded.add(scf.IfOp.create(operands=[wanted], result_types=[], regions=[Region(copies), Region()]))
        guarded.add(PipelineYieldOp.make())
        turn = Inserter(Block(), None, at.location)
        token_type = ProducerTokenType(self.type.element_types)
        token = turn.value(ProducerAcquireOp.make(self.pipe, iterator, results=[token_type]))
        token = turn.value(ProducerWriteOp.make(token, iterator, results=[token_type], regions=[Region(buffers)]))
        turn.add(ProducerCommitOp.make(token))
        turn.add(PipelineYieldOp.make())
        at.add(ProduceOneOp.make(self.pipe, iterator, regions=[Region(turn.block)]))

    def _read_stage(self, token: SSAValue, iterator: SSAValue) -> None:
        """Read this iteration's tiles, and release their stage behind the last of these."""
        reads = [self._read_slices(read, token, iterator) for read in self.cut]
        cut = {load for read in self.cut for load in read.loads}
        whole = [load for load in self.loads if load not in cut or load.value.first_use is not None]
        reads += [self._read(load, token, iterator) for load in whole]
        for load in self.loads:
            _hand_on_token(Inserter(self.body, load, load.location), load)
            erase(load)
        places = {op: place for place, op in enumerate(self.body.ops)}
        for read in sorted(reads, key=lambda op: places[op]):
            set_operand(read, "token", token)
            token, last = read.consumed, read
        Inserter(self.body, last.next_op, last.location).add(ConsumerReleaseOp.make(token))

    def _read(self, load: Load, token: SSAValue, iterator: SSAValue) -> ConsumerReadOp:
        """Read the tile where the load is, in each layout that somebody wants."""
        wanted = read_types(load)
        here = Block(arg_types=self.type.element_types)
        inside = Inserter(here, None, load.location)
        buffer = here.args[self.loads.index(load)]
        read = [inside.value(CopyOp.make(buffer, results=[type_])) for type_ in wanted]
        inside.add(PipelineYieldOp.make(read))
        done = ConsumerReadOp.make(token, iterator, results=[token.type, list(wanted)], regions=[Region(here)])
        Inserter(self.body, load, load.location).add(done)
        take_over(load, dict(zip(wanted, done.outputs)))
        return done

    def _read_slices(self, read: SlicedRead, token: SSAValue, iterator: SSAValue) -> ConsumerReadOp:
        """Make a product of slices, where it is, which read their parts of tiles."""
        product, slices = read.slices.product, read.slices
        here = Block(arg_types=self.type.element_types)
        location = read.loads[0].location  # of what is read; what is multiplied stands where the product does
        inside = Inserter(here, None, location)
        buffers: dict[SSAValue, SSAValue] = {of.value: here.args[self.loads.index(of)] for of in read.loads}
        inside.add(PipelineYieldOp.make([slices.make(inside, buffers, product.c, 0, 1)]))
        given = [product.result.type]
        done = ConsumerReadOp.make(token, iterator, results=[token.type, given], regions=[Region(here)])
        Inserter(self.body, product, location).add(done)
        product.result.replace_all_uses_with(done.outputs[0])
        slices.erase()
        return done


def read_types(load: Load) -> list[Attribute]:
    """The types in which what a load gives is wanted: read from shared memory, it needs no conversion."""
    converts = conversions(load)
    wanted = {convert.result.type: None for convert in converts}
    if len(converts) < sum(1 for _ in load.value.uses):
        wanted[load.value.type] = None
    return list(wanted)


def take_over(load: Load, tiles: dict[Attribute, SSAValue]) -> None:
    """Let tiles of `read_types` take the place of what a load gives."""
    for convert in conversions(load):
        convert.result.replace_all_uses_with(tiles[convert.result.type])
        erase(convert)
    if load.value.type in tiles:
        load.value.replace_all_uses_with(tiles[load.value.type])


def _buffer(load: Load, cut: Sequence[SlicedRead], gpu: Target) -> BufferType:
    type_ = load.value.type
    assert isinstance(type_, TensorType)  # a load gives a tile
    layout = buffer_layout(load, read_layouts(load, cut), gpu)
    return BufferType(type_.get_shape(), type_.element_type, "shared", LayoutAttr(layout))


def _is_ordered(load: Load) -> bool:
    """Whether a token orders a load behind something."""
    return load.token is not None and not is_fresh(load.token)


def start_copy(
    at: Inserter, load: Load, values: dict[SSAValue, SSAValue], buffer: SSAValue, layout: LinearLayout | None = None,
    *, cut: bool = False,
) -> None:  # fmt: skip
    """The asynchronous copy for a load, with its operands of another iteration, in a layout (default: the load's). Of
    one through a view the tensor's end may `cut` what is moved at once."""

    def moved(value: SSAValue | None) -> SSAValue | None:
        return None if value is None else values.get(value, value)

    source, token, atom = moved(load.accessed), moved(load.token), load.atom or CopyAtomAttr("ldgsts")
    made: TileOp
    if isinstance(load, LoadOp):
        made = tma.LoadOp.make(source, buffer, moved(load.mask), token, results=[AsyncTokenType()], atom=atom)
    else:
        indices, moved_in = [values.get(v, v) for v in load.indices], LayoutAttr(layout or layout_of(load.value))
        results = [AsyncTokenType()]
        made = tma.TiledLoadOp.make(
            source,
            buffer,
            indices,
            token,
            results=results,
            atom=atom,
            layout=moved_in,
            in_bounds=load.in_bounds,
            cut=cut,
        )
    made.attributes |= {name: attr for name, attr in load.attributes.items() if name not in made.properties}
    at.add(made, load.location)


def _hand_on_token(at: Inserter, load: Load) -> None:
    """What is ordered behind the load is behind the wait for it, at which all threads meet."""
    token = load.result_token
    if token is None or token.first_use is None:
        return
    after = load.token if load.token is not None else at.value(CreateMemTokenOp.make(results=[token.type]))
    token.replace_all_uses_with(after)
