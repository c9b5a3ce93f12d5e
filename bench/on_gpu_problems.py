# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `on_gpu.py` measures: the kernels of `perf_kernels.py` at sizes for a GPU, compiled by both assemblers; and what
can be said of them without a GPU."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import static_comparison
from on_gpu import OURS, PLAIN, REFERENCE, Array, Code, Launch, Peaks, flat, write_folder
from perf_kernels import KERNELS

from libtile.backend.tools import ToolNotFoundError
from libtile.compiler import driver
from libtile.compiler.options import Options
from libtile.support.errors import LibtileError
from libtile.targets import machine

SIDES = (4096, 8192)
"""Of square products."""
ATTENTION = ((64, 1024), (16, 4096), (4, 16384))
"""Heads and rows of attention."""
LAUNCHED_ROWS, VECTOR, SIDE = 16384, 1 << 26, 8192
"""Of rows of a softmax, elements of a sum, and the side of a matrix that is transposed."""


def launches(names: Sequence[str] = ()) -> list[Launch]:
    """All problems of the kernels whose names contain one of these, without their code."""
    found = [launch for name in KERNELS for launch in _problems(name)]
    return [x for x in found if not names or any(name in x.name for name in names)]


def _problems(name: str) -> list[Launch]:
    first, *rest = name.split("_")
    if first in ("gemm", "persistent"):
        return [_product(name, first == "persistent", rest[0], rest[1], side) for side in SIDES]
    if first == "attention":
        return [_attention(name, *size, int(rest[1][1:]), "causal" in rest) for size in ATTENTION]
    tile = [int(n) for n in rest[-1].split("x")]
    if first == "softmax":
        arrays = tuple(Array("float16", (LAUNCHED_ROWS, tile[0]), written) for written in (False, True))
        return [_launch(f"{name} {LAUNCHED_ROWS} rows", name, "softmax", arrays, (LAUNCHED_ROWS, 1, 1))]
    if first == "vector":
        arrays = tuple(Array("float32", (VECTOR,), written) for written in (False, False, True))
        return [_launch(f"{name} {VECTOR}", name, "add", arrays, (VECTOR // tile[0], 1, 1))]
    if first == "transpose":
        arrays = tuple(Array("float16", (SIDE, SIDE), written) for written in (False, True))
        return [_launch(f"{name} {SIDE}", name, "transpose", arrays, (SIDE // tile[0], SIDE // tile[1], 1))]
    raise LibtileError(f"no problem is known for the kernel '{name}'")


def _launch(name: str, kernel: str, operation: str, arrays: tuple[Array, ...], grid: tuple[int, int, int]) -> Launch:
    return Launch(name, kernel, operation, arrays, flat(arrays), grid, 0.0, kind="")


def _product(name: str, persistent: bool, kind: str, tile: str, side: int) -> Launch:
    m, n, _ = (int(x) for x in tile.split("x"))
    element = "float8_e4m3fn" if kind.startswith("fp8") else "float16"
    arrays = Array(element, (side, side)), Array(element, (side, side)), Array("float16", (side, side), True)
    rows, columns = side // m, side // n
    return Launch(
        f"{name} {side}", name, "product_nt" if kind.endswith("nt") else "product", arrays, flat(arrays),
        (rows * columns, 1, 1) if persistent else (rows, columns, 1), 2.0 * side**3,
        "f8" if kind.startswith("fp8") else "f16", persistent,
    )  # fmt: skip


def _attention(name: str, heads: int, rows: int, depth: int, causal: bool) -> Launch:
    arrays = tuple(Array("float16", (heads, rows, depth), written) for written in (False, False, False, True))
    operations = 4.0 * heads * rows * rows * depth / (2 if causal else 1)
    operation = "causal attention" if causal else "attention"
    parameters = flat(arrays, [("float", depth**-0.5)])
    return Launch(f"{name} {heads}x{rows}", name, operation, arrays, parameters, (rows // 128, heads, 1), operations)


def peaks(target: str) -> Peaks:
    """What is known of a GPU of a target."""
    known = machine(target)
    return Peaks(dict(known.tensor), known.bandwidth)


def prepare(target: str, folder: Path, names: Sequence[str] = ()) -> None:
    """Compile the kernels by both assemblers and write the folder. The reference's are left out where it is not there,
    or refuses a kernel, which is said."""
    wanted = launches(names)
    codes: dict[str, dict[str, Code]] = {}
    cubins: dict[str, bytes] = {}
    for kernel in dict.fromkeys(launch.kernel for launch in wanted):
        data = static_comparison.bytecode(kernel, target)
        codes[kernel] = _ours(kernel, data, target, cubins)
        try:
            made = reference_cubin(data, target)
        except (ToolNotFoundError, LibtileError) as reason:
            print(f"{kernel}: {reason}", file=sys.stderr)
            continue
        file = f"{kernel}.{REFERENCE}.cubin"
        cubins[file] = made
        codes[kernel][REFERENCE] = replace(codes[kernel][OURS], file=file)
    complete = [replace(launch, codes=codes[launch.kernel]) for launch in wanted]
    write_folder(folder, complete, peaks(target), cubins)
    print(f"{folder}: {len(complete)} launches, {len(cubins)} cubins, {sum(map(len, cubins.values())) >> 10} KiB")


def _ours(kernel: str, data: bytes, target: str, cubins: dict[str, bytes]) -> dict[str, Code]:
    found = {}
    for who, abi in ((OURS, "tileir"), (PLAIN, "simt")):
        made = driver.compile_bytecode(data, Options(target, launch_abi=abi))
        compiled = made.kernels[kernel]
        file = f"{kernel}.{who}.cubin"
        cubins[file] = made.cubin
        sizes = tuple(parameter.size for parameter in compiled.params)
        # The driver makes the tensor maps of Tile IR cubins, by the host code in them.
        plain = abi == "simt"
        descriptors: tuple[dict[str, Any], ...] = tuple(map(asdict, compiled.descriptors)) if plain else ()
        found[who] = Code(file, compiled.block_dim if plain else (1, 1, 1), sizes, descriptors)
    return found


def reference_cubin(data: bytes, target: str) -> bytes:
    """What the reference assembler makes of bytecode. LibtileError with what it says otherwise."""
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder) / "k.bc", Path(folder) / "k.cubin"
        source.write_bytes(data)
        command = [static_comparison.reference_assembler(), f"--gpu-name={target}", str(source), "-o", str(result)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode != 0:
            raise LibtileError((done.stderr.splitlines() or [f"exit status {done.returncode}"])[0][:160])
        return result.read_bytes()


def without_gpu(target: str, reason: str, names: Sequence[str] = ()) -> str:
    """Static figures of both assemblers, and the simulator's counts of small problems."""
    import libtile
    from kernels import corpus, model

    corpus.KERNELS.update(KERNELS)
    kernels = [name for name in KERNELS if not names or any(part in name for part in names)]
    rows, problems = static_comparison.table(kernels, [target])
    lines = [
        f"# Kernels for {target}, without a GPU",
        "",
        f"{reason}.",
        "",
        "Ours / the reference's, one number where they are equal.",
        "",
        f"| kernel | target | {' | '.join(static_comparison.COLUMNS)} |",
        f"|---|---|{'---:|' * len(static_comparison.COLUMNS)}",
        *rows,
        *problems,
        "",
        "In the simulator, for a small problem with ragged edges, checked:",
        "",
        "| kernel | blocks | warp instructions | bank conflicts | bytes read | bytes written |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name in kernels:
        kernel = KERNELS[name]
        case = model.make_case(kernel, 0)
        before = model.snapshot(case.args)
        data = corpus.export(kernel, kernel.versions[-1])
        done = libtile.run(data, name, grid=case.grid, args=case.args, backend="simulator", gpu_name=target,
                           check="full")  # fmt: skip
        model.check_case(case, before, case.args)
        counts = done.warp_instructions, done.bank_conflicts, done.bytes_read, done.bytes_written
        lines.append(f"| {name} | {done.blocks} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines) + "\n"
