# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the optimizer of cuda_tile does to programs: counts before and behind a level, as a table in Markdown.

    python bench/optimizer.py                            # the examples
    python bench/optimizer.py --corpus                   # and the kernels of the tests' corpus (needs cuda-tile)
    python bench/optimizer.py --reference=sm_90          # and the code that NVIDIA's tileiras makes of both, in bytes

Tokens are the edges of the order between accesses: token operands of all ops. Carried values are those of `for` and
`loop`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "test")]

import libtile  # noqa: E402
from libtile.dialects.cuda_tile.ops import CudaTileOp  # noqa: E402
from libtile.dialects.cuda_tile.types import TokenType  # noqa: E402

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


def programs(corpus: bool) -> Iterator[tuple[str, bytes]]:
    """Names and bytecode of the programs to look at."""
    for path in sorted((ROOT / "examples").glob("*.bc")):
        yield path.stem, path.read_bytes()
    if corpus:
        from kernels import corpus as kernels

        for kernel in kernels.KERNELS.values():
            version = "13.3" if "13.3" in kernel.versions else str(kernel.versions[-1])
            yield kernel.name, kernels.export(kernel, version)


def code_bytes(data: bytes, gpu_name: str) -> int | None:
    """The size of the machine code that the reference assembler makes; None when it refuses the program."""
    from io import BytesIO

    from elftools.elf.elffile import ELFFile

    from oracle import run_tileiras

    cubin = run_tileiras(data, gpu_name).cubin
    if cubin is None:
        return None
    elf = ELFFile(BytesIO(cubin))
    return sum(section.data_size for section in elf.iter_sections() if section.name.startswith(".text."))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", action="store_true", help="also the kernels of the tests' corpus")
    parser.add_argument("--level", type=int, default=3, help="the optimization level (default: 3)")
    parser.add_argument("--reference", metavar="SM", help="also the code that NVIDIA's tileiras makes for SM")
    parser.add_argument("--sums", action="store_true", help="only the sums of all programs")
    options = parser.parse_args()
    columns = [*COLUMNS, *([f"code bytes, {options.reference}"] if options.reference else []), "seconds"]
    print(f"| program | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}")
    sums = {name: [0, 0] for name in columns[:-1]}
    smaller = larger = 0
    for name, data in programs(options.corpus):
        module = libtile.read(data)
        start = perf_counter()
        optimized = libtile.optimize(module, options.level)
        seconds = perf_counter() - start
        pairs = [(was, now) for was, now in zip(counts(module).values(), counts(optimized).values())]
        if options.reference:
            sizes = [code_bytes(version, options.reference) for version in (data, libtile.write(optimized))]
            pairs.append((sizes[0] or 0, sizes[1] or 0) if None not in sizes else (0, 0))
            smaller += pairs[-1][1] < pairs[-1][0]
            larger += pairs[-1][1] > 1.02 * pairs[-1][0]
        for column, (was, now) in zip(sums, pairs):
            sums[column][0] += was
            sums[column][1] += now
        if not options.sums:
            print(f"| {name} | {' | '.join(map(_shown, pairs))} | {seconds:.3f} |", flush=True)
    print(f"| all | {' | '.join(_shown((was, now)) for was, now in sums.values())} | |")
    if options.reference:
        print(f"\nCode of {options.reference}: smaller for {smaller} programs, larger by more than 2% for {larger}.")


def _shown(pair: tuple[int, int]) -> str:
    return str(pair[0]) if pair[0] == pair[1] else f"{pair[0]} → {pair[1]}"


if __name__ == "__main__":
    main()
