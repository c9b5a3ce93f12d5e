# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attacks: modules of the inner dialects that are changed where it means something.

A change keeps the text a text: another size, element type, keyword, operand, op, attribute, number of warps or target
takes the place of one that is there. So most of what comes out is read, and it is the verifier that refuses it, or the
lowering that refuses or compiles it. What has arguments can be run as well.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dialects import inner_samples
from lowering.inner_programs import PROGRAMS
from lowering.queue_kernels import KERNELS

LIT = Path(__file__).resolve().parents[1] / "lit"
FOLDERS = ("nv_tileaa", "nv_tileas", "lowering")

ELEMENTS = (
    "i1", "i4", "i8", "i16", "i32", "i64", "f16", "bf16", "tf32", "f32", "f64", "f8E4M3FN", "f8E5M2", "f8E8M0FNU",
    "f4E2M1FN", "index",
)  # fmt: skip
SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 33, 64, 100, 128, 256, 512, 4096, -1, -4, 1 << 25, 1 << 31, 1 << 63)
LIKELY = (1, 2, 4, 8, 16, 32, 64)
KEYWORDS = (
    ("weak", "relaxed", "acquire", "release", "acq_rel"),
    ("tl_blk", "cluster", "gpu", "sys"),
    ("signed", "unsigned"),
    ("add", "and", "or", "xor", "xchg", "min", "max", "umin", "umax", "addf"),
    ("none", "ca", "cg", "cs", "lu", "cv"),
    ("first", "last", "normal"),
    ("true", "false"),
    ("tma_load", "tma_store", "tma_redg", "ldgsts", "ldg", "stg", "unknown_copy", "lds", "sts", "ldmatrix", "stmatrix"),
    ("tiled", "im2col", "im2col_at", "tiled_at", "gather4", "scatter4", "store", "reduce"),
    ("shared", "tmem", "global"),
    ("nearest_even", "zero", "negative_inf", "positive_inf", "approx", "full"),
    ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_110", "sm_120", "sm_121"),
    ("mma_sync", "wgmma", "tcgen05", "fma"),
    ("eq", "ne", "slt", "sle", "ult", "ule"),
    ("zero", "neg_zero", "nan", "pos_inf", "neg_inf"),
)
_WORD = re.compile(r"[\w.]+")
_NUMBER = re.compile(r"(?<![\w.%#@^])-?\d+(?![\w.])")
_SHAPE = re.compile(r"\b(?:\d+x)+")
_VALUE = re.compile(r"%[\w]+(?:#\d+)?")
_OP = re.compile(r"\bnv_tilea[as]\.[a-z_][\w.]*")
_ATTRIBUTE = re.compile(r"(\w+) = (array<[^>]*>|#nv_tilea[as]\.\w+<[^<>]*>|\[[^\][]*\]|-?[\d.]+(?: : \w+)?|\"[^\"]*\")")
_TARGETED = re.compile(r"target=(sm_\d+)")


@dataclass(frozen=True)
class Attack:
    """A module, and what it is run with: a grid and the arguments of a launch, made anew by each call."""

    text: str
    grid: int = 1
    arguments: Callable[[], list[Any]] | None = None


@cache
def originals() -> list[Attack]:
    """What is changed: a sample of each op, the small programs, the kernels with queues, and the tests of verifiers and
    passes."""
    made = [Attack(inner_samples.text(name)) for name in inner_samples.BODIES]
    made += [Attack(p.text(), p.grid, p.arguments) for p in PROGRAMS.values() if not p.options]
    made += [Attack(k.text, 1, lambda k=k: k.case()[0]) for k in KERNELS.values()]
    for folder in FOLDERS:
        for path in sorted((LIT / folder).rglob("*.mlir")):
            parts = re.split(r"^// -----.*\n", path.read_text(), flags=re.MULTILINE)
            made += [Attack(p) for p in parts if "nv_tilea" in p and len(p) < 8_000]
    return made


def attack(rng: random.Random) -> Attack:
    """One of `originals` with one to three changes."""
    all_, launched = originals(), [given for given in originals() if given.arguments is not None]
    given = rng.choice(launched if rng.random() < 0.6 else all_)
    text = given.text
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        text = rng.choice(CHANGES)(rng, text)
    return Attack(text, given.grid, given.arguments)


def _put(text: str, found: re.Match[str], new: str) -> str:
    return text[: found.start()] + new + text[found.end() :]


def _one(rng: random.Random, pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = list(pattern.finditer(text))
    return rng.choice(found) if found else None


def _number(rng: random.Random, text: str) -> str:
    found = _one(rng, _NUMBER, text)
    return text if found is None else _put(text, found, str(rng.choice(SIZES)))


def _size(rng: random.Random, text: str) -> str:
    """Another size in one type, or in all types and lists that have this size."""
    found = _one(rng, _SHAPE, text)
    if found is None:
        return text
    sizes = found[0].split("x")[:-1]
    old, new = rng.choice(sizes), str(rng.choice(LIKELY if rng.random() < 0.7 else SIZES))
    if rng.random() < 0.6:
        return re.sub(rf"(?<![\w.%#@]){old}(?=x|[,>\]]| :)", new, text)
    at = rng.randrange(len(sizes))
    return _put(text, found, "x".join([*sizes[:at], new, *sizes[at + 1 :]]) + "x")


def _element(rng: random.Random, text: str) -> str:
    """Another element type in one place, or wherever it stands."""
    there = [m for m in re.finditer(r"(?<=x)[a-z]+\d\w*|\b[if]\d+\b|\bindex\b|\bbf16\b", text) if m[0] in ELEMENTS]
    if not there:
        return text
    found, new = rng.choice(there), rng.choice(ELEMENTS)
    if rng.random() < 0.6:
        return re.sub(rf"((?<=x)|\b){found[0]}\b", new, text)
    return _put(text, found, new)


def _keyword(rng: random.Random, text: str) -> str:
    """Another keyword of the same attribute."""
    there = [(m, row) for m in _WORD.finditer(text) for row in KEYWORDS if m[0] in row]
    if not there:
        return text
    found, row = rng.choice(there)
    return _put(text, found, rng.choice(row))


def _operand(rng: random.Random, text: str) -> str:
    found = _one(rng, _VALUE, text)
    return text if found is None else _put(text, found, rng.choice(_VALUE.findall(text)))


def _op(rng: random.Random, text: str) -> str:
    """Another op, of those in all samples."""
    found = _one(rng, _OP, text)
    return text if found is None else _put(text, found, rng.choice(list(inner_samples.BODIES)))


def _less(rng: random.Random, text: str) -> str:
    """Without an attribute, or with that of another module in its place."""
    found = _one(rng, _ATTRIBUTE, text)
    if found is None:
        return text
    if rng.random() < 0.5:
        other = _one(rng, _ATTRIBUTE, rng.choice(originals()).text)
        return text if other is None else _put(text, found, other[0])
    without = _put(text, found, "")
    return re.sub(r",\s*,", ",", re.sub(r"\{\s*,\s*", "{", re.sub(r",\s*\}", "}", without)))


def _more(rng: random.Random, text: str) -> str:
    """With an attribute of another module."""
    found = _one(rng, re.compile(r"\{(?=\w+ = )"), text)
    other = _one(rng, _ATTRIBUTE, rng.choice(originals()).text)
    return text if found is None or other is None else _put(text, found, f"{{{other[0]}, ")


def _lines(rng: random.Random, text: str) -> str:
    """Without a line, or with one twice, or at another place."""
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    kind = rng.randrange(3)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(rng.randrange(len(lines) + 1), lines[at])
    else:
        lines.insert(at, lines.pop(rng.randrange(len(lines))))
    return "\n".join(lines)


def _kernel(rng: random.Random, text: str) -> str:
    """Another number of warps, of CTAs, or another target."""
    name = rng.choice(("num_warps", "num_ctas", "target"))
    if name == "target":
        return _TARGETED.sub(f"target={rng.choice(KEYWORDS[11])}", text)
    return re.sub(rf"{name}=\d+", f"{name}={rng.choice((0, 1, 2, 3, 4, 8, 16, 32, 33))}", text)


CHANGES = (
    _number, _number, _size, _size, _size, _element, _element, _element, _keyword, _keyword, _operand, _operand, _op,
    _less, _more, _lines, _kernel,
)  # fmt: skip
