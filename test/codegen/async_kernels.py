# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the tests of asynchronous tensor code share: kernels built by hand, run in the simulator and assembled."""

from __future__ import annotations

from typing import Any

from libtile.backend import nvptx, ptx
from libtile.backend.ptxas import Assembled, assemble
from libtile.codegen import agents, mbarrier, tma, wgmma
from libtile.codegen.builder import Agent, KernelBuilder, Value, float_constant, integer
from libtile.codegen.control import for_loop
from libtile.codegen.llvm_types import FLOAT, GENERIC_POINTER, I32, SHARED_POINTER, VOID
from libtile.simulator import run_ptx
from libtile.targets import target

SM_90 = target("sm_90")
DESCRIPTOR = 'byval([128 x i8]) align 64 "nvvm.grid_constant"'


def i32(value: int) -> Value:
    return integer(I32, value)


def kernel(threads: int, maps: int, numbers: int = 0) -> tuple[KernelBuilder, list[Value], list[Value]]:
    """A kernel with so many tensor maps and i32 as parameters."""
    b = KernelBuilder("k", SM_90, threads)
    given = [b.add_parameter(GENERIC_POINTER, DESCRIPTOR) for _ in range(maps)]
    return b, given, [b.add_parameter(I32) for _ in range(numbers)]


def ptx_of(b: KernelBuilder) -> str:
    if not b.block.terminated:
        b.return_()
    text = nvptx.to_ptx(b.module_text(), b.target)
    return ptx.finish(text, b.target, {b.name: ptx.EntryDirectives(b.cta_threads, min_ctas_per_sm=1, language=None)})


def assembled(text: str) -> Assembled:
    """The cubin; products that ptxas makes wait for one another are an error here."""
    made = assemble(text, SM_90.ptx_target, options=["--enable-extended-smem=true"])
    said = [line for line in made.log.splitlines() if "(C75" in line]
    assert not said, said
    return made


def run(text: str, b: KernelBuilder, *args: Any, grid: tuple[int, ...] = (1, 1, 1), order: int | None = None) -> Any:
    """Run with all of the simulator's checks; `order` is the seed of a random schedule."""
    return run_ptx(text, b.name, grid=grid, block=(b.cta_threads, 1, 1), args=list(args), checks="full", order=order)


def at(b: KernelBuilder, pointer: Value, offset: int | Value) -> Value:
    """So many bytes behind a pointer to shared memory."""
    moved = i32(offset) if isinstance(offset, int) else offset
    return b.emit(SHARED_POINTER, f"getelementptr i8, {pointer.typed}, {moved.typed}")


def gemm(stages: int = 4, rows: int = 128, columns: int = 256) -> KernelBuilder:
    """c = a b for f16 matrices, 64 along k at a time: a producer and consumer warpgroups of 64 rows each.

    The parameters are tensor maps of a (boxes of 64 x rows), b (64 x 64) and c (64 x 64), and the steps along k.
    """
    from libtile.atoms.cp_async import operand_shared_layout
    from libtile.atoms.wgmma import find, shared_operand

    groups = rows // 64
    b, (map_a, map_b, map_c), (steps,) = kernel(128 * (groups + 1), 3, 1)
    atom = find(SM_90, "f16", "f16", "f32", rows, columns, 64)
    left = shared_operand(operand_shared_layout((rows, 64), "f16"), "a", atom, 2, (16,))
    right = shared_operand(operand_shared_layout((64, columns), "f16"), "b", atom, 2, (16,))
    a_bytes, stage_bytes = rows * 128, rows * 128 + columns * 128
    ring = b.shared_pointer(b.shared_buffer(stages * stage_bytes, 1024))
    barriers = b.shared_pointer(b.shared_buffer(2 * stages * mbarrier.BYTES, 8))

    def full(stage: Value) -> Value:
        return at(b, barriers, b.mul(stage, i32(8)))

    def empty(stage: Value) -> Value:
        return at(b, barriers, b.add(b.mul(stage, i32(8)), i32(8 * stages)))

    def following(stage: Value, phase: Value) -> tuple[Value, Value]:
        more = b.add(stage, i32(1))
        wraps = b.compare("eq", more, i32(stages))
        return b.select(wraps, i32(0), more), b.xor(phase, b.cast("zext", wraps, I32))

    made = [(full(i32(s)), 1) for s in range(stages)] + [(empty(i32(s)), 4 * groups) for s in range(stages)]
    mbarrier.initialize(b, made)
    b.barrier()
    producer, consumer, end = b.new_block("producer"), b.new_block("consumer"), b.new_block("end")
    warp = b.warp()
    x, y = b.mul(b.block_id("x"), i32(rows)), b.mul(b.block_id("y"), i32(columns))
    b.conditional_branch(b.compare("uge", warp, i32(4 * groups)), producer, consumer)

    b.start(producer)
    with b.as_agent(Agent(4 * groups, 4, 2)):
        agents.set_registers(b, 40, 168)
        first = b.compare("eq", b.warp(), i32(0))
        with b.when(first), agents.one_thread(b):

            def produce(step: Value, carried: list[Value]) -> list[Value]:
                stage, phase = carried
                mbarrier.wait(b, empty(stage), b.xor(phase, i32(1)))
                mbarrier.arrive_expecting(b, full(stage), stage_bytes)
                to, k = at(b, ring, b.mul(stage, i32(stage_bytes))), b.mul(step, i32(64))
                tma.load_box(b, to, map_a, [k, x], full(stage))
                for j in range(columns // 64):
                    tma.load_box(b, at(b, to, a_bytes + 8192 * j), map_b, [b.add(y, i32(64 * j)), k], full(stage))
                return list(following(stage, phase))

            for_loop(b, i32(0), steps, i32(1), [i32(0), i32(0)], produce)
        b.branch(end)

    b.start(consumer)
    with b.as_agent(Agent(0, 4 * groups, 1)):
        agents.set_registers(b, 232, 168)
        group = agents.warpgroup(b)
        of_a = wgmma.descriptor(b, left, ring, b.mul(group, i32(8192)))
        of_b = wgmma.descriptor(b, right, at(b, ring, a_bytes))
        zero = float_constant(FLOAT, 0.0)
        count = columns // 2

        def consume(step: Value, carried: list[Value]) -> list[Value]:
            stage, phase, before, *acc = carried
            mbarrier.wait(b, full(stage), phase)
            moved = b.cast("zext", b.mul(stage, i32(stage_bytes // 16)), of_a.start.type)
            a = wgmma.Descriptor(left, b.add(of_a.start, moved))
            right_ = wgmma.Descriptor(right, b.add(of_b.start, moved))
            acc = wgmma.fence(b, acc)
            for k in range(0, 64, 16):
                acc = wgmma.multiply(b, atom, acc, a.at(b, 0, k), right_.at(b, 0, k), transposed=(False, True))
            wgmma.commit(b)
            acc = wgmma.wait(b, 1, acc)
            with b.when(b.compare("ne", step, i32(0))), agents.one_thread(b):
                mbarrier.arrive(b, empty(before))
            return [*following(stage, phase), stage, *acc]

        start = [i32(0), i32(0), i32(0), *[zero] * count]
        acc = wgmma.wait(b, 0, for_loop(b, i32(0), steps, i32(1), start, consume)[3:])
        b.barrier()  # all have read the ring, which c goes through
        _store(b, acc, at(b, ring, b.mul(group, i32(64 * columns * 2))), columns)
        tma.fence_async_shared(b)
        b.barrier()
        with b.when(b.compare("eq", b.warp(), i32(0))), agents.one_thread(b):
            for g in range(groups):
                for j in range(columns // 64):
                    source = at(b, ring, g * 64 * columns * 2 + 8192 * j)
                    tma.store_box(b, map_c, [b.add(y, i32(64 * j)), b.add(x, i32(64 * g))], source)
            tma.commit_stores(b)
            tma.wait_stores(b, 0, read=True)
        b.branch(end)
    b.start(end)
    return b


def _store(b: KernelBuilder, acc: list[Value], base: Value, columns: int) -> None:
    """A warpgroup's 64 rows as f16 in swizzled panels of 64 columns."""
    lane, warp = b.lane(), b.and_(b.warp(), i32(3))
    row = b.add(b.mul(warp, i32(16)), b.and_(lane, i32(15)))
    half = b.binary("lshr", lane, i32(4))
    for j in range(columns // 16):
        panel, chunk = divmod(2 * j, 8)
        swizzled = b.xor(b.add(i32(chunk), half), b.and_(row, i32(7)))
        offset = b.add(b.add(b.mul(row, i32(128)), b.mul(swizzled, i32(16))), i32(panel * 8192))
        words = [
            b.asm("cvt.rn.f16x2.f32 $0, $1, $2;", "=r,f,f", I32, [acc[8 * j + 2 * x + 1], acc[8 * j + 2 * x]])
            for x in range(4)
        ]
        b.call("llvm.nvvm.stmatrix.sync.aligned.m8n8.x4.b16.p3", VOID, [at(b, base, offset), *words])
