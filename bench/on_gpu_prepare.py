# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The folder of cubins that `on_gpu.py` launches, compiled by both assemblers; and what can be said of the kernels
without a GPU."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import static_comparison
from on_gpu_launches import OURS, PLAIN, REFERENCE, REFERENCE_PLAIN, Code, Peaks, write_folder
from on_gpu_problems import launches
from on_gpu_reference import PlainReference
from perf_kernels import KERNELS, kernels_for

from libtile.backend.tools import ToolNotFoundError
from libtile.compiler import driver
from libtile.compiler.options import Options
from libtile.support.errors import LibtileError
from libtile.targets import machine


def peaks(target: str) -> Peaks:
    """What is known of a GPU of a target."""
    known = machine(target)
    return Peaks(dict(known.tensor), known.bandwidth)


def prepare(target: str, folder: Path, names: Sequence[str] = ()) -> None:
    """Compile the kernels by both assemblers and write the folder. The reference's are left out where it is not there,
    or refuses a kernel, which is said."""
    wanted = launches(target, names)
    codes: dict[str, dict[str, Code]] = {}
    cubins: dict[str, bytes] = {}
    plain: dict[str, PlainReference] = {}
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
        plain[kernel] = PlainReference(data, target, kernel, codes[kernel][OURS].sizes)
        cubins[plain[kernel].code.file] = plain[kernel].cubin
    complete = []
    for launch in wanted:
        known = dict(codes[launch.kernel])
        if launch.kernel in plain:
            known[REFERENCE_PLAIN] = plain[launch.kernel].code_for(launch)
        complete.append(replace(launch, codes=known))
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

    kernels = [name for name in kernels_for(target) if not names or any(part in name for part in names)]
    rows, problems = static_comparison.table([(kernel, target) for kernel in kernels])
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
