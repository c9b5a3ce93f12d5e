# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the optimizer of cuda_tile does to programs: counts before and behind a level, as a table in Markdown.

    python bench/optimizer.py                            # the examples
    python bench/optimizer.py --corpus                   # and the kernels of the tests' corpus (needs cuda-tile)
    python bench/optimizer.py --corpus --every=10        # of all these every tenth
    python bench/optimizer.py --reference=sm_90          # and what NVIDIA's tileiras makes of both
    python bench/optimizer.py --bytecode=FOLDER          # the files of a folder (cuTile's CUDA_TILE_DUMP_BYTECODE)
    python bench/optimizer.py --after=tile-locality      # and a pipeline behind the level
    python bench/optimizer.py --claims --reference=sm_90 # what it would make if the optimizer knew what it cannot know
    python bench/optimizer.py --corpus --reference=sm_90 --known=bench/results/optimizer.md   # in half the time

Tokens are the edges of the order between accesses: token operands of all ops. Carried values are those of `for` and
`loop`. Of the reference assembler's code: registers, instructions, and of these the copies by TMA (see
bench/static_comparison.py, which says what it needs). A program is better where one of the first two is less by more
than 2% and none is more by that; TMA that is lost makes it worse. That is said for registers as they are, and for
registers as the hardware gives them to a thread: 8 at a time (CUDA C++ Programming Guide, "Compute Capabilities":
register allocation unit of 256 a warp), all of them and those beyond the 32 with which every thread of a multiprocessor
has its own (65,536 registers for 2,048 threads, ibidem). With `--known` the code of programs as they are is not made
where a table of an earlier run has a program of that name and those counts; the assembler has to be the same.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from time import process_time

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "test")]

from xdsl.dialects.builtin import DenseArrayBase, i1  # noqa: E402
from xdsl.ir import Operation, SSAValue  # noqa: E402

import libtile  # noqa: E402
from libtile.dialects.cuda_tile.attributes import DivByAttr  # noqa: E402
from libtile.dialects.cuda_tile.ops import CudaTileOp  # noqa: E402
from libtile.dialects.cuda_tile.types import PointerType, TileType, TokenType, is_integer  # noqa: E402
from libtile.transforms.canonical_values import create_before  # noqa: E402

COLUMNS = ("ops", "pointer loads", "view loads", "stores", "tokens", "branches", "loops", "carried", "assume")


def counts(module: libtile.Module) -> dict[str, int]:
    """The numbers of a program, by column."""
    found = dict.fromkeys(COLUMNS, 0)
    for op in module.op.walk():
        if not isinstance(op, CudaTileOp) or op.spec.name in ("module", "entry", "return", "yield", "continue"):
            continue
        name = op.spec.name
        found["ops"] += 1
        found["pointer loads"] += name == "load_ptr_tko"
        found["view loads"] += name == "load_view_tko"
        found["stores"] += name.startswith("store_")
        found["branches"] += name == "if"
        found["loops"] += name in ("for", "loop")
        found["assume"] += name == "assume"
        if name in ("for", "loop"):
            found["carried"] += len(op.operand_group("initValues"))
        found["tokens"] += sum(isinstance(operand.type, TokenType) for operand in op.operands)
    return found


def programs(corpus: bool, folder: Path | None = None) -> Iterator[tuple[str, bytes]]:
    """Names and bytecode of the programs to look at: those of a folder alone, where one is given."""
    if folder is not None:
        yield from ((path.name.partition(".tileirbc")[0], path.read_bytes()) for path in sorted(folder.iterdir()))
        return
    for path in sorted((ROOT / "examples").glob("*.bc")):
        yield path.stem, path.read_bytes()
    if corpus:
        from kernels import corpus as kernels

        for kernel in kernels.KERNELS.values():
            version = "13.3" if "13.3" in kernel.versions else str(kernel.versions[-1])
            yield kernel.name, kernels.export(kernel, version)


def claim(module: libtile.Module) -> None:
    """State what would help a compiler and no program says: that every access through a view is in bounds, that scalar
    parameters are multiples of 16, and that no load or store waits for another. What it makes of a kernel is wrong."""
    ops = [op for op in module.op.walk() if isinstance(op, CudaTileOp)]
    for op in ops:
        match op.spec.name:
            case "entry" if (first := op.regions[0].blocks[0].first_op) is not None:
                for argument in op.regions[0].blocks[0].args:
                    _claim_multiple(argument, first)
            case "load_view_tko" | "store_view_tko":
                op.properties["inbounds"] = DenseArrayBase.from_list(i1, [1] * len(op.operand_group("index")))
        if op.spec.name.startswith(("load_", "store_")) and (token := op.optional_operand("token")) is not None:
            fresh = create_before(op, "make_token", {}, [token.type])
            op.operands = [fresh if operand is token else operand for operand in op.operands]
    libtile.verify(module)


def _claim_multiple(argument: SSAValue, place: Operation) -> None:
    """Use `assume div_by<16>` of an integer or a pointer in its place."""
    type_, uses = argument.type, list(argument.uses)
    if isinstance(type_, TileType) and (is_integer(type_.element_type) or isinstance(type_.element_type, PointerType)):
        made = create_before(place, "assume", {"value": argument}, [type_], {"predicate": DivByAttr(16)})
        for use in uses:
            use.operation.operands[use.index] = made


REFERENCE = ("registers", "instructions", "TMA")
"""What is counted of the reference assembler's code."""
TOLERANCE = 0.02
ALLOCATED = 8
"""Registers that a thread is given at a time."""


def code(module: libtile.Module, data: bytes, gpu_name: str) -> list[int]:
    """The figures of `REFERENCE` of all entries together; all 0 when the reference assembler refuses the program."""
    from static_comparison import theirs

    ops = (op for op in module.op.walk() if isinstance(op, CudaTileOp))
    entries = [str(op.attribute_value("sym_name")) for op in ops if op.spec.name == "entry"]
    found = [theirs(data, entry, gpu_name).values for entry in entries]
    return [sum(values[column] for values in found) if all(found) else 0 for column in REFERENCE]


FREE = 32
"""Registers of a thread with which a multiprocessor has room for as many threads as it can have."""
MEASURES = {
    "registers as they are": (1, 0),
    f"registers by {ALLOCATED}, as they are given out": (ALLOCATED, 0),
    f"registers by {ALLOCATED}, beyond the {FREE} that cost no threads": (ALLOCATED, FREE),
}
"""Units of registers, and how many count as none."""


def verdict(pairs: Sequence[tuple[int, int]], unit: int = 1, free: int = 0) -> int:
    """1 where the reference assembler's code of the optimized program is better, -1 where it is worse, 0 elsewhere.

    Registers count by units of `unit`, and fewer than `free` as so many.
    """
    registers, instructions, copies = pairs
    was, now = (-(-max(number, free) // unit) for number in registers)
    sizes = [(was, now), instructions]
    if any(now > was * (1 + TOLERANCE) for was, now in sizes) or copies[1] < copies[0]:
        return -1
    return int(any(now < was * (1 - TOLERANCE) for was, now in sizes) or copies[1] > copies[0])


Known = dict[tuple[object, ...], list[int]]
"""What an earlier table says of the code of programs as they are, by name and counts."""


def known_code(table: Path | None) -> Known:
    """The figures of `REFERENCE` in the rows of a table that this script has printed."""
    found: Known = {}
    for line in table.read_text().splitlines() if table is not None else ():
        name, *cells = (cell.strip() for cell in line.strip().strip("|").split("|"))
        if len(cells) == len(COLUMNS) + len(REFERENCE) + 1 and cells[0][:1].isdigit():
            before = [int(cell.partition(" ")[0]) for cell in cells[:-1]]
            found[name, *before[: len(COLUMNS)]] = before[len(COLUMNS) :]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", action="store_true", help="also the kernels of the tests' corpus")
    parser.add_argument("--level", type=int, default=3, help="the optimization level (default: 3)")
    parser.add_argument("--after", metavar="PIPELINE", help="passes behind those of the level")
    parser.add_argument("--every", type=int, default=1, help="only every so-manieth program (default: all)")
    parser.add_argument("--reference", metavar="SM", help="also the code that NVIDIA's tileiras makes for SM")
    parser.add_argument("--bytecode", metavar="FOLDER", type=Path, help="the files of a folder, and nothing else")
    parser.add_argument("--claims", action="store_true", help="behind the level, state what no program says")
    parser.add_argument("--sums", action="store_true", help="only the sums of all programs")
    parser.add_argument("--known", metavar="TABLE", type=Path, help="where code of programs as they are is known from")
    options = parser.parse_args()
    columns = [*COLUMNS, *(f"{what}, {options.reference}" for what in REFERENCE if options.reference), "seconds"]
    print(f"| program | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}")
    sums = {name: [0, 0] for name in columns[:-1]}
    verdicts: dict[str, Counter[int]] = {measure: Counter() for measure in MEASURES}
    refused, known = 0, known_code(options.known)
    for name, data in islice(programs(options.corpus, options.bytecode), 0, None, options.every):
        module = libtile.read(data)
        start = process_time()
        optimized = libtile.optimize(module, options.level, after=options.after or "")
        seconds = process_time() - start
        if options.claims:
            claim(optimized)
        pairs = [(was, now) for was, now in zip(counts(module).values(), counts(optimized).values())]
        if options.reference:
            before = known.get((name, *counts(module).values())) or code(module, data, options.reference)
            figures = list(zip(before, code(module, libtile.write(optimized), options.reference)))
            pairs += figures
            refused += not any(before)
            for measure, found in verdicts.items():
                found[verdict(figures, *MEASURES[measure])] += any(before)
        for column, (was, now) in zip(sums, pairs):
            sums[column][0] += was
            sums[column][1] += now
        if not options.sums:
            print(f"| {name} | {' | '.join(map(_shown, pairs))} | {seconds:.3f} |", flush=True)
    print(f"| all | {' | '.join(_shown((was, now)) for was, now in sums.values())} | |")
    if options.reference:
        print(f"\nCode of {options.reference}, of which the reference refuses {refused} programs:\n")
        for how, found in verdicts.items():
            better, same, worse = (found[which] for which in (1, 0, -1))
            print(f"- {how}: better for {better} programs, the same for {same}, worse for {worse}.")


def _shown(pair: tuple[int, int]) -> str:
    return str(pair[0]) if pair[0] == pair[1] else f"{pair[0]} → {pair[1]}"


if __name__ == "__main__":
    main()
