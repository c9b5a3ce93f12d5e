# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Addresses in shared memory: what is computed, where, and how often."""

from libtile.codegen.builder import Agent, KernelBuilder, Value, integer
from libtile.codegen.llvm_types import I32
from libtile.codegen.shared_tiles import Addresses
from libtile.targets import target

LANES, WARPS = [1, 2, 4, 64 | 8, 128 | 16], [256 | 32, 512]  # rows of 64 words, whose words 8 to 32 are swizzled


def builder() -> KernelBuilder:
    b = KernelBuilder("k", target("sm_90"), 128)
    body = b.new_block("body")
    b.branch(body)
    b.start(body)
    return b


def place(b: KernelBuilder) -> Value:
    return b.shared_pointer(b.shared_buffer(65536, 128))


def count(b: KernelBuilder, op: str) -> int:
    return sum(f" {op} " in line for line, _ in b.block.lines)


def test_only_bits_that_threads_have_are_xored():
    b = builder()
    addresses = Addresses(b, place(b), LANES, WARPS, 4)
    before = count(b, "xor")
    starts = [word | row << 10 for row in range(16) for word in (0, 8, 16, 24, 32, 40, 48, 56)]
    assert len({addresses.at(start).text for start in starts}) == len(starts)
    assert count(b, "xor") - before == 7, "one for each place of a row but the first; rows are added"


def test_what_a_turn_around_products_needs_is_computed_in_it():
    b = builder()
    with b.as_agent(Agent(0, 4, 1)):
        b.own = b.block
        Addresses(b, place(b), LANES, WARPS, 4)
        kept = count(b, "asm")
        with b.each_turn():
            b.block = b.new_block("turn")
            b.own = b.block
            for _ in range(2):
                Addresses(b, place(b), LANES, WARPS, 4)
            assert count(b, "call i32 asm sideeffect") == 1
        b.block = b.new_block("behind")
        Addresses(b, place(b), LANES, WARPS, 4)
        assert kept == count(b, "asm") == 0, "what was computed in front of the loop is there behind it"
        assert b.kept_here(integer(I32, 3)) == integer(I32, 3)
