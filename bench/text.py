# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Speed of reading, printing, parsing, verifying and writing, and of tileirdisasm as a process.

    python bench/text.py [--ops N] [--repeat N]

Prints ops per second on a module of 1,000 ops and on one of N (100,000 unless told otherwise), and the ratio of the
times per op, which is 1 where growth is linear. The processes are ours and, where it is installed, NVIDIA's.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import libtile  # noqa: E402
from libtile import bytecode  # noqa: E402
from libtile.bytecode import model as bc  # noqa: E402
from libtile.spec import default_spec  # noqa: E402

VERSION = "13.3"


def module_of(count: int) -> bytes:
    """A kernel of about `count` ops of several kinds, straight-line and in loops, as bytecode."""
    ops = default_spec().ops
    tile = bc.make_type("tile", bc.make_type("f32"), (16,))
    scalar = bc.make_type("tile", bc.make_type("i32"), ())
    bound = bc.Value(scalar)
    first = bc.Value(tile)
    body = [_constant(ops, first)]
    x = y = first
    total = 2
    while total < count:
        made, last = _group(ops, tile, x, y)
        total += len(made)
        if total % 40 < 4:
            loop = bc.Block([bc.Value(scalar)], [*made, bc.Operation(ops["continue"])])
            body.append(bc.Operation(ops["for"], [bound, bound, bound], [], {}, [[loop]]))
            total += 2
        else:
            body += made
            x, y = y, last
    body.append(bc.Operation(ops["return"]))
    function = bc.Function("kernel", bc.make_type("function", (scalar,), ()), bc.Block([bound], body))
    return bytecode.write(bc.Module(functions=[function]), VERSION)


def _constant(ops: Any, result: bc.Value) -> bc.Operation:
    return bc.Operation(ops["constant"], [], [result], {"value": bc.Dense(result.type, b"\0\0\x80\x3f")})


def _group(ops: Any, tile: bc.Type, x: bc.Value, y: bc.Value) -> tuple[list[bc.Operation], bc.Value]:
    a, b, c, d = (bc.Value(tile) for _ in range(4))
    return [
        _constant(ops, a),
        bc.Operation(ops["addf"], [x, a], [b], {"rounding_mode": "nearest_even"}),
        bc.Operation(ops["mulf"], [b, y], [c], {"rounding_mode": "zero", "flush_to_zero": True}),
        bc.Operation(ops["exp2"], [c], [d], {}),
    ], d


def timed(work: Callable[[], Any], repeat: int) -> tuple[float, Any]:
    """The best time of `repeat` runs, and the last result."""
    best = float("inf")
    result: Any = None
    for _ in range(repeat):
        result = None
        gc.collect()
        start = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - start)
    return best, result


def stages(data: bytes, repeat: int) -> dict[str, float]:
    """Seconds of each stage on one module."""
    times: dict[str, float] = {}
    times["bytecode.read (all decoded)"], _ = timed(lambda: bytecode.read(data, lazy=False), repeat)
    times["libtile.read"], module = timed(lambda: libtile.read(data), repeat)
    times["libtile.verify"], _ = timed(lambda: libtile.verify(module), repeat)
    times["libtile.print_module"], text = timed(lambda: libtile.print_module(module), repeat)
    times["libtile.print_module (generic)"], _ = timed(lambda: libtile.print_module(module, generic=True), repeat)
    times["libtile.parse"], _ = timed(lambda: libtile.parse(text), repeat)
    times["libtile.write"], _ = timed(lambda: libtile.write(module, VERSION), repeat)
    return times


def disassemblers() -> dict[str, list[str]]:
    """The command lines to compare: ours, and the original's where it is installed."""
    found = {"libtile": [sys.executable, "-m", "tileirdisasm"]}
    spec = importlib.util.find_spec("nvidia.cu13") if importlib.util.find_spec("nvidia") else None
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        tool = Path(folder) / "bin" / "tileirdisasm"
        if tool.exists():
            found["NVIDIA"] = [str(tool)]
    return found


def run_process(command: list[str], data: bytes, repeat: int) -> float:
    with tempfile.NamedTemporaryFile(suffix=".bc") as file:
        file.write(data)
        file.flush()
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        seconds, _ = timed(
            lambda: subprocess.run([*command, file.name], check=True, capture_output=True, env=environment), repeat
        )
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ops", type=int, default=100_000, help="size of the large module (default: 100000)")
    parser.add_argument("--repeat", type=int, default=3, help="runs per measurement, of which the best counts")
    options = parser.parse_args()
    sizes = (1_000, options.ops)
    files = [module_of(size) for size in sizes]
    counts = [sum(1 for _ in bytecode.read(data).operations()) for data in files]
    small, large = (stages(data, options.repeat) for data in files)
    print(f"{'stage':34}{counts[0]:>12,} ops{counts[1]:>12,} ops{'growth':>10}")
    for name in small:
        rates = [count / times[name] for count, times in zip(counts, (small, large))]
        print(f"{name:34}{rates[0]:>12,.0f}/s  {rates[1]:>12,.0f}/s  {rates[0] / rates[1]:>8.2f}")
    print(f"\n{'tileirdisasm, process':34}{'seconds':>14}{'seconds':>16}")
    for name, command in disassemblers().items():
        times = [run_process(command, data, options.repeat) for data in files]
        print(f"{name:34}{times[0]:>14.3f}{times[1]:>16.3f}")


if __name__ == "__main__":
    main()
