# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Damage to bytes and to text: what the fuzzers make their inputs with."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence


def damaged_bytes(rng: random.Random, data: bytes, other: bytes, first: int = 0) -> bytes:
    """One to four damages of some bytes, from position `first` on."""
    result = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(first, len(result)) if len(result) > first else rng.randrange(len(result) + 1)
        kind = rng.randrange(9)
        if kind == 0 and result:
            result[min(at, len(result) - 1)] ^= 1 << rng.randrange(8)
        elif kind == 1 and result:
            result[min(at, len(result) - 1)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif kind == 2:
            result[at:at] = rng.randbytes(rng.randrange(1, 9))
        elif kind == 3:
            del result[at : at + rng.randrange(1, 9)]
        elif kind == 4:
            start = rng.randrange(len(other))
            result[at : at + rng.randrange(17)] = other[start : start + rng.randrange(1, 33)]
        elif kind == 5:
            del result[at:]
        elif kind == 6:  # a length or count becomes huge
            result[at : at + 1] = b"\xff" * rng.randrange(1, 12) + b"\x01"
        elif kind == 7:  # an offset of a table
            result[at : at + 4] = rng.choice((0, 1, 2**31, 2**32 - 1, len(result))).to_bytes(4, "little")
        else:  # a piece of the file again
            result[at:at] = result[at : at + rng.randrange(1, 40)] * rng.randrange(1, 4)
    return bytes(result)


_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[%@#!^]?[\w$.]+|->|\s+|.', re.DOTALL)


def tokens(text: str) -> list[str]:
    """A text in pieces whose concatenation it is: words with their sigil, strings, white space, single characters."""
    return _TOKEN.findall(text)


NUMBERS = ("0", "-1", "1", "02", "0x", "0xFF", "2147483648", "9223372036854775808", "1e400", "-0.0", "nan", "9" * 30)


def damaged_text(rng: random.Random, text: str, other: str, pieces: Sequence[str]) -> str:
    """One to four damages by tokens, lines or characters; `other` is a text to take things from, `pieces` some more."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        text = rng.choice((_by_tokens, _by_tokens, _by_tokens, _by_lines, _by_characters))(rng, text, other, pieces)
    return text


def _kind(word: str) -> str:
    first = word[:1]
    return "a" if first.isalpha() else "0" if first.isdigit() else first


def _by_tokens(rng: random.Random, text: str, other: str, pieces: Sequence[str]) -> str:
    words = tokens(text)
    if not words:
        return text
    at = rng.randrange(len(words))
    match rng.randrange(10):
        case 0:
            del words[at : at + rng.choice((1, 1, 2, 5))]
        case 1:
            words[at:at] = words[at : at + rng.choice((1, 2, 5))]
        case 2:  # another word of the text in its place, of the same kind if it can be
            words[at] = rng.choice([w for w in words if _kind(w) == _kind(words[at])])
        case 3:
            words[at] = rng.choice(pieces)
        case 4:
            words.insert(at, rng.choice(pieces))
        case 5:
            to = rng.randrange(len(words))
            words[at], words[to] = words[to], words[at]
        case 6:
            numbers = [i for i, word in enumerate(words) if word[:1].isdigit()]
            if numbers:
                words[rng.choice(numbers)] = rng.choice(NUMBERS)
        case 7 | 8:  # a word of the other text of the same kind
            alike = [w for w in tokens(other) if _kind(w) == _kind(words[at])]
            words[at] = rng.choice(alike or words)
        case _:
            found = tokens(other)
            start = rng.randrange(len(found)) if found else 0
            words[at : at + rng.choice((0, 0, 1, 4))] = found[start : start + rng.randrange(1, 12)]
    return "".join(words)


def _by_lines(rng: random.Random, text: str, other: str, pieces: Sequence[str]) -> str:
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    match rng.randrange(4):
        case 0:
            del lines[at]
        case 1:
            lines.insert(rng.randrange(len(lines) + 1), lines[at])
        case 2:
            lines.insert(at, lines.pop(rng.randrange(len(lines))))
        case _:
            found = other.split("\n")
            start = rng.randrange(len(found))
            lines[at:at] = found[start : start + rng.randrange(1, 5)]
    return "\n".join(lines)


def _by_characters(rng: random.Random, text: str, other: str, pieces: Sequence[str]) -> str:
    start = rng.randrange(len(text) + 1)
    end = min(len(text), start + rng.randrange(30))
    match rng.randrange(5):
        case 0:
            return text[:start] + text[end:]
        case 1:
            return text[:start] + chr(rng.choice((rng.randrange(256), 0xDC80 + rng.randrange(128)))) + text[start:]
        case 2:
            return text[:start] + text[start:end] * rng.randrange(1, 4) + text[end:]
        case 3:
            return text[:start]
        case _:
            cut = rng.randrange(len(other) + 1)
            return text[:start] + other[cut : cut + rng.randrange(80)] + text[start:]
