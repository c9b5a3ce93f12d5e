# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Static figures of our code beside the reference assembler's, by kernel and target, with no GPU.

    python bench/static_comparison.py [--kernels vector_add ...] [--targets sm_80 ...] [-o bench/results/static.md]
    python bench/static_comparison.py --perf [-o bench/results/static-perf.md]
    python bench/static_comparison.py --perf --targets sm_80 --schedules pipelined specialized [-o ...]

For each kernel and target, ours / theirs: registers and shared memory of the cubin, threads of a block, bytes of stack
(spills and local arrays), instructions, those of the main loop (the shortest one with tensor-core instructions, or `-`;
where warps are parted, that which multiplies), and of all of these tensor-core instructions, ldmatrix, 16-byte global
loads and stores, asynchronous copies to shared memory, copies by TMA, loads and stores of local memory (spills), and
barriers of the block. With `--perf` the kernels are those of `perf_kernels.py`, with `--models` those of
test/cutile/models; `--schedules` compares two schedules of ours in place of both assemblers. Needs nvdisasm (from
nvidia-cuda-nvdisasm) and, for the right-hand figures, nvidia-cuda-tileiras;
`-` stands for what could not be made.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path

from libtile.backend.cubin import read_cubin
from libtile.backend.tools import ToolNotFoundError, find_tool
from libtile.compiler import driver
from libtile.compiler.options import Options
from libtile.support.errors import LibtileError

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ("vector_add", "softmax", "layer_norm", "gemm", "attention", "histogram", "transpose", "prefix_sum")
CORPUS = ("mma_bf16_bf16_f32", "mma_f64_f64_f64", "softmax_online", "rms_norm", "attention_causal_d128")
TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")

_LABEL = re.compile(r"^(\.L\w+):")
_BRANCH = re.compile(r"\bBRA\b.*`\((\.L\w+)\)")
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)")
#: Column -> pattern of the instruction with its modifiers.
COUNTED = {
    "tensor": re.compile(r"(HMMA|IMMA|DMMA|QMMA|OMMA|HGMMA|IGMMA|QGMMA|UTC\w*MMA)\b"),
    "LDSM": re.compile(r"LDSM\b"),
    "LDG.128": re.compile(r"LDG\.(\w+\.)*128"),
    "STG.128": re.compile(r"STG\.(\w+\.)*128"),
    "LDGSTS": re.compile(r"LDGSTS"),
    "TMA": re.compile(r"UTMA(LDG|STG|REDG)|UBLK(CP|RED)"),
    "LDL": re.compile(r"LDL\b"),
    "STL": re.compile(r"STL\b"),
    "BAR": re.compile(r"BAR\b"),
}
RETRY = 5
"""Instructions in front of a branch among which one waits for a barrier object if it is that wait that is repeated."""
COLUMNS = ("registers", "shared", "threads", "stack", "instructions", "loop", *COUNTED)


def reference_assembler() -> str:
    """NVIDIA's tileiras; ToolNotFoundError when there is none (ours may be on PATH under its name)."""
    tool = find_tool("tileiras")
    said = subprocess.run([str(tool), "--version"], capture_output=True, text=True, check=False, timeout=60).stdout
    if "NVIDIA" not in said:
        raise ToolNotFoundError(f"{tool} is not NVIDIA's; pip install nvidia-cuda-tileiras brings it")
    return str(tool)


@dataclass(frozen=True)
class Figures:
    """The figures of one kernel by column; or why there are none."""

    values: dict[str, int]
    problem: str = ""


def measure(cubin: bytes, kernel: str) -> Figures:
    """The figures of a kernel in a cubin; of the only one where there is one, whose name cuTile may have made."""
    kernels = read_cubin(cubin).kernels
    if len(kernels) == 1:
        (kernel,) = kernels
    read = kernels[kernel]
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(find_tool("nvdisasm")), "-c", file.name]
        text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    start = text.index(f".text.{kernel}:")
    following = text.find("\n.section", start)
    body = text[start : following if following > 0 else len(text)]
    loop = main_loop(body)
    names = [match[1] for line in body.splitlines() if (match := _INSTRUCTION.match(line))]
    names = [name for name in names if name != "NOP"]
    counts = Counter(column for name in names for column, pattern in COUNTED.items() if pattern.match(name))
    threads = read.threads or (0, 0, 0)
    return Figures(
        {
            "registers": read.registers,
            "shared": read.shared,
            "threads": threads[0] * threads[1] * threads[2],
            "stack": read.frame,
            "instructions": len(names),
            **({} if loop is None else {"loop": loop}),
            **{column: counts[column] for column in COUNTED},
        }
    )


def main_loop(body: str) -> int | None:
    """How many instructions the shortest loop with tensor-core instructions has; None where there is none. What tries
    again to wait for a barrier object stands behind all loops, and leads back into one."""
    codes: list[str] = []
    places: dict[str, int] = {}
    found = []
    for line in body.splitlines():
        if label := _LABEL.match(line):
            places[label[1]] = len(codes)
        if instruction := _INSTRUCTION.match(line):
            codes.append(instruction[1])
            branch = _BRANCH.search(line)
            if branch and branch[1] in places and not any("TRYWAIT" in code for code in codes[-RETRY:]):
                inside = codes[places[branch[1]] :]
                if any(COUNTED["tensor"].match(code) for code in inside):
                    found.append(sum(code != "NOP" for code in inside))
    return min(found, default=None)


def ours(data: bytes, kernel: str, target: str, schedule: str = "") -> Figures:
    """Ours, with a schedule that is asked for; the problem says why a loop does not have that."""
    try:
        made = driver.compile_bytecode(data, Options(target, schedule=schedule))
    except LibtileError as error:
        return Figures({}, str(error).splitlines()[0][:160])
    kept = [remark for remark in made.remarks if remark.name == "RemarkTensorCoreSpecialization"]
    reasons = {value for remark in kept for name, value in remark.arguments if name == "Reason"} if schedule else ()
    return Figures(measure(made.cubin, kernel).values, "; ".join(sorted(reasons)))


def theirs(data: bytes, kernel: str, target: str) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder) / "k.bc", Path(folder) / "k.cubin"
        source.write_bytes(data)
        try:
            command = [reference_assembler(), f"--gpu-name={target}", str(source), "-o", str(result)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        except ToolNotFoundError as error:
            return Figures({}, str(error))
        if done.returncode != 0:
            return Figures({}, (done.stderr.splitlines() or [f"exit status {done.returncode}"])[0][:160])
        return measure(result.read_bytes(), kernel)


def bytecode(kernel: str, target: str) -> bytes:
    """The kernel's bytecode: an example's file, or exported by the frontend for this target."""
    path = ROOT / "examples" / f"{kernel}.bc"
    if path.is_file():
        return path.read_bytes()
    sys.path[:0] = [str(ROOT), str(ROOT / "test")]
    from kernels import corpus  # type: ignore[import-not-found]

    if kernel not in corpus.KERNELS:
        import perf_kernels

        corpus.KERNELS.update(perf_kernels.KERNELS)
    found = corpus.KERNELS.get(kernel)
    if found is None:
        return model_bytecode(kernel)
    data: bytes = corpus.export(found, found.versions[-1])
    return data


def model_names() -> list[str]:
    """The kernels of test/cutile/models."""
    sys.path[:0] = [str(ROOT), str(ROOT / "test")]
    from cutile.models.problems import PROBLEMS  # type: ignore[import-not-found]

    return list(PROBLEMS)


def model_bytecode(kernel: str) -> bytes:
    """The bytecode of a kernel as models have them, with tiles of full size."""
    if kernel not in model_names():
        places = "the examples, the corpus, perf_kernels.py and test/cutile/models"
        sys.exit(f"error: there is no kernel '{kernel}' in {places}")
    from cutile.models.problems import FULL, PROBLEMS
    from libtile import cutile

    problem = PROBLEMS[kernel](FULL)
    return cutile.bytecode_for(problem.kernel, problem.args)[0]


Side = Callable[[bytes, str, str], Figures]
"""Gives the figures of a kernel for a target."""
ASSEMBLERS: tuple[tuple[str, Side], ...] = (("ours", ours), ("theirs", theirs))


def table(
    pairs: Sequence[tuple[str, str]], sides: Sequence[tuple[str, Side]] = ASSEMBLERS
) -> tuple[list[str], list[str]]:
    """The rows of the table, for kernels and targets, and a line for each compilation that failed."""
    rows, problems = [], []
    for kernel, target in pairs:
        data = bytecode(kernel, target)
        pair = [side(data, kernel, target) for _, side in sides]
        cells = []
        for column in COLUMNS:
            a, b = (str(f.values.get(column, "-")) for f in pair)
            cells.append(a if a == b else f"{a} / {b}")
        rows.append(f"| {kernel} | {target} | {' | '.join(cells)} |")
        problems += [f"- {kernel} on {target}, {who}: {f.problem}" for (who, _), f in zip(sides, pair) if f.problem]
        print(rows[-1], *problems[-1:], sep="\n", file=sys.stderr, flush=True)
    return rows, problems


def perf_pairs(targets: Sequence[str]) -> list[tuple[str, str]]:
    """The kernels that are compared by their speed, each with the targets on which it is."""
    from perf_kernels import KERNELS, kernels_for

    compared = {target: kernels_for(target) for target in targets}
    return [(kernel, target) for kernel in KERNELS for target in targets if kernel in compared[target]]


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument(
        "--kernels", nargs="+", help="names of examples, of kernels of the corpus or of perf_kernels.py"
    )
    parser.add_argument("--perf", action="store_true", help="the kernels of perf_kernels.py")
    parser.add_argument("--models", action="store_true", help="the kernels of test/cutile/models")
    parser.add_argument("--targets", nargs="+", default=TARGETS)
    parser.add_argument("--schedules", nargs=2, metavar="NAME", help="two schedules of ours to compare")
    parser.add_argument("-o", "--output", type=Path, help="write the table here; stdout without it")
    options = parser.parse_args()
    if options.perf and not options.kernels:
        pairs = perf_pairs(options.targets)
    else:
        kernels = options.kernels or (model_names() if options.models else [*EXAMPLES, *CORPUS])
        pairs = [(kernel, target) for kernel in kernels for target in options.targets]
    title, names, asked = "Static comparison with the reference assembler", ["ours", "theirs"], ""
    sides = ASSEMBLERS
    if options.schedules:
        title, names = "Static comparison of two schedules", options.schedules
        sides = tuple((name, partial(ours, schedule=name)) for name in names)
        asked = f" --targets {' '.join(options.targets)} --schedules {' '.join(names)}"
    which = " --perf" * options.perf + " --models" * options.models
    rows, problems = table(pairs, sides)
    lines = [
        f"# {title}",
        "",
        f"{names[0].capitalize()} / {names[1]}, one number where they are equal; memory in bytes. Made by `python "
        f"bench/static_comparison.py{which}{asked}` on {date.today()}.",
        "",
        f"| kernel | target | {' | '.join(COLUMNS)} |",
        f"|---|---|{'---:|' * len(COLUMNS)}",
        *rows,
    ]
    if problems:
        lines += ["", "Not compiled:" if not options.schedules else "Not compiled so, and why:", "", *problems]
    text = "\n".join(lines) + "\n"
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
