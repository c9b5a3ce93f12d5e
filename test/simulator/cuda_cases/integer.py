# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Integer arithmetic and bit operations, against Python's unbounded integers (PTX ISA, Integer Arithmetic)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from .table import Family, Launch, Source, per_lane, words

INTEGER = Family(Source("integer"))

M16, M32, M64 = (1 << 16) - 1, (1 << 32) - 1, (1 << 64) - 1


def signed(value: int, bits: int) -> int:
    """`value`'s low `bits` as two's complement."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def quotient(a: int, b: int) -> int:
    """Division that truncates towards zero, as C and PTX do."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int:
    return a - b * quotient(a, b)


def clamp(value: int, bits: int) -> int:
    """Saturation to a signed range."""
    return max(-(1 << bits - 1), min((1 << bits - 1) - 1, value))


def clamp_unsigned(value: int, bits: int) -> int:
    return max(0, min((1 << bits) - 1, value))


@INTEGER.add(block=96)
def int32_arith(rng: np.random.Generator) -> Launch:
    a, b = words(rng, 96, np.uint32), rng.permutation(words(rng, 96, np.uint32))

    def formula(x: int, y: int) -> list[int]:
        sx, sy, sodd, odd = signed(x, 32), signed(y, 32), signed(y | 1, 32), y | 1
        x24, y24, s24, t24 = x & 0xFFFFFF, y & 0xFFFFFF, signed(x, 24), signed(y, 24)
        return [
            x + y, x - y, x * y, -x, abs(sx), min(sx, sy), max(sx, sy), min(x, y), max(x, y),
            sx * sy >> 32, x * y >> 32, s24 * t24, x24 * y24, abs(sx - sy) + 7, abs(x - y) + 9,
            sx + sy >> 1, sx + sy + 1 >> 1, x + y >> 1, x + y + 1 >> 1,
            quotient(sx, sodd), remainder(sx, sodd), x // odd, x % odd, x * y + (x ^ y),
        ]  # fmt: skip

    return Launch([np.zeros(24 * 96, np.uint32), a, b], {0: per_lane(formula, [a, b], np.uint32)})


@INTEGER.add(block=64)
def int32_mad(rng: np.random.Generator) -> Launch:
    a, b, c = (rng.permutation(words(rng, 64, np.uint32)) for _ in range(3))

    def formula(x: int, y: int, z: int) -> list[int]:
        sx, sy, sz = signed(x, 32), signed(y, 32), signed(z, 32)
        wide = x << 32 | z
        low32 = [
            (sx * sy >> 32) + sz, (x * y >> 32) + z, clamp((sx * sy >> 32) + sz, 32),
            signed(x, 24) * signed(y, 24), signed(x, 24) * signed(y, 24) >> 16, (x & 0xFFFFFF) * (y & 0xFFFFFF),
            signed(x, 24) * signed(y, 24) + sz, ((x & 0xFFFFFF) * (y & 0xFFFFFF) >> 16) + z,
            clamp(sx + sy, 32), clamp(sx - sy, 32),
        ]  # fmt: skip
        return [value & M32 for value in low32] + [sx * sy, x * y, sx * sy + wide, x * y + wide]

    return Launch([np.zeros(14 * 64, np.uint64), a, b, c], {0: per_lane(formula, [a, b, c], np.uint64)})


@INTEGER.add(block=64)
def int64_arith(rng: np.random.Generator) -> Launch:
    a, b = words(rng, 64, np.uint64), rng.permutation(words(rng, 64, np.uint64))

    def formula(x: int, y: int) -> list[int]:
        sx, sy, sodd, odd = signed(x, 64), signed(y, 64), signed(y | 1, 64), y | 1
        return [
            x + y, x - y, x * y, -x, abs(sx), min(sx, sy), max(sx, sy), min(x, y), max(x, y),
            sx * sy >> 64, x * y >> 64, quotient(sx, sodd), remainder(sx, sodd), x // odd, x % odd,
            x * y + x, (x * y >> 64) + x, abs(sx - sy) + 5, x // 7, remainder(sx, 1000003),
        ]  # fmt: skip

    return Launch([np.zeros(20 * 64, np.uint64), a, b], {0: per_lane(formula, [a, b], np.uint64)})


@INTEGER.add(block=64)
def int16_arith(rng: np.random.Generator) -> Launch:
    a, b = words(rng, 64, np.int16), rng.permutation(words(rng, 64, np.int16))
    # -32768 / -1 overflows, which C and PTX leave undefined.
    b[(a == -32768) & (b | 1 == -1)] = 5
    b[(signed_bytes(a) == -128) & (signed_bytes(b | 1) == -1)] = 5

    def formula(x: int, y: int, lane: int) -> list[int]:
        ux, uy, odd = x & M16, y & M16, y | 1
        x8, y8, ux8, uy8 = signed(x, 8), signed(y, 8), x & 255, y & 255
        halves = [
            x + y, x - y, x * y, x * y >> 16, ux * uy >> 16, x * y, ux * uy, x * y + 100000, x * y + x,
            min(x, y), signed(max(ux, uy), 16), signed(abs(x), 16), signed(-x, 16), ~x,
            quotient(x, odd), signed(ux % (uy | 1), 16), signed(ux << lane, 16), x >> lane, signed(ux >> lane, 16),
            x8 + y8, ux8 * uy8, signed(x + y, 8), quotient(x8, signed(odd, 8)), ux8 % (uy8 | 1),
        ]  # fmt: skip
        full_width = {5, 6, 7, 19, 20, 21, 22, 23}
        return [value if k in full_width else signed(value, 16) for k, value in enumerate(halves)]

    lane = np.arange(64)
    return Launch([np.zeros(24 * 64, np.int32), a, b], {0: per_lane(formula, [a, b, lane], np.int32)})


def signed_bytes(values: np.ndarray) -> np.ndarray:
    return values.astype(np.int8)


@INTEGER.add(block=128)
def int_shift(rng: np.random.Generator) -> Launch:
    a = rng.integers(0, 1 << 64, 128, dtype=np.uint64)

    def formula(x: int, n: int) -> list[int]:
        low = x & M32
        wrap, held = n & 31, min(n, 32)
        left = [(x << amount) >> 32 & M32 for amount in (wrap, held)]
        right = [x >> amount & M32 for amount in (wrap, held)]
        return [
            low << n & M32, low >> n, signed(low, 32) >> n & M32, x << n, x >> n, signed(x, 64) >> n,
            left[0], right[0], left[1], right[1], left[0], right[1],
        ]  # fmt: skip

    return Launch([np.zeros(12 * 128, np.uint64), a], {0: per_lane(formula, [a, np.arange(128)], np.uint64)})


def most_significant(value: int, bits: int, is_signed: bool) -> int:
    """bfind: position of the top bit that differs from the sign, all ones when there is none."""
    if is_signed and value >> (bits - 1):
        value = ~value & ((1 << bits) - 1)
    return value.bit_length() - 1 if value else M32


def find_nth_set(mask: int, base: int, offset: int) -> int:
    """fns: the offset-th set bit at or above (below, when negative) `base`; 0 tests `base` itself."""
    if offset == 0:
        return base if mask >> base & 1 else M32
    walk = range(base, 32) if offset > 0 else range(base, -1, -1)
    found = [position for position in walk if mask >> position & 1]
    return found[abs(offset) - 1] if abs(offset) <= len(found) else M32


@INTEGER.add(block=96)
def int_count(rng: np.random.Generator) -> Launch:
    a = words(rng, 96, np.uint64)

    def formula(x: int, lane: int) -> list[int]:
        low = x & M32
        reversed64 = int(f"{x:064b}"[::-1], 2)
        shift32, shift64 = most_significant(low, 32, False), most_significant(x, 64, True)
        return [
            low.bit_count(), x.bit_count(), 32 - low.bit_length(), 64 - x.bit_length(),
            int(f"{low:032b}"[::-1], 2), reversed64 >> 32, reversed64,
            (low & -low).bit_length(), (x & -x).bit_length(), int(low == 0), int(x == 0),
            most_significant(low, 32, False), most_significant(low, 32, True),
            most_significant(x, 64, False), most_significant(x, 64, True),
            shift32 if shift32 == M32 else 31 - shift32, shift64 if shift64 == M32 else 63 - shift64,
            *(find_nth_set(low, lane & 31, offset) for offset in (1, 3, -2, 0)),
        ]  # fmt: skip

    return Launch([np.zeros(21 * 96, np.uint32), a], {0: per_lane(formula, [a, np.arange(96)], np.uint32)})


def extract(value: int, pos: int, length: int, bits: int, is_signed: bool) -> int:
    """bfe: bits beyond the value repeat the sign bit of the field (or zero)."""
    top = min(pos + length - 1, bits - 1)
    sign = value >> top & 1 if is_signed and length else 0
    result = 0
    for k in range(bits):
        inside = k < length and pos + k < bits
        result |= (value >> pos + k & 1 if inside else sign) << k
    return result


def insert(a: int, b: int, pos: int, length: int, bits: int) -> int:
    """bfi: a's low `length` bits over b at `pos`."""
    field = ((1 << length) - 1) << pos & (1 << bits) - 1
    return b & ~field | a << pos & field


@INTEGER.add(block=128)
def int_bitfield(rng: np.random.Generator) -> Launch:
    a, b = (rng.integers(0, 1 << 64, 128, dtype=np.uint64) for _ in range(2))
    pos = rng.choice([0, 1, 7, 15, 31, 32, 33, 40, 63, 64, 200, 255], 128)
    length = rng.choice([0, 1, 3, 8, 16, 31, 32, 33, 48, 63, 64, 65, 255], 128)
    c = (pos | length << 8).astype(np.uint16)

    def formula(x: int, y: int, packed: int) -> list[int]:
        at, count = packed & 255, packed >> 8
        low, low_y = x & M32, y & M32
        mask = (((1 << min(count, 32)) - 1) << min(at, 32)) & M32
        wrapped = (((1 << (count & 31)) - 1) << (at & 31)) & M32
        return [
            extract(low, at, count, 32, False), extract(low, at, count, 32, True),
            extract(x, at, count, 64, False), extract(x, at, count, 64, True),
            insert(low, low_y, at, count, 32), insert(x, y, at, count, 64), mask, wrapped,
            (signed(low, min(count, 32)) if count else 0) & M32, low & (1 << (count & 31)) - 1,
        ]  # fmt: skip

    return Launch([np.zeros(10 * 128, np.uint64), a, b, c], {0: per_lane(formula, [a, b, c], np.uint64)})


@INTEGER.add()
def int_logic(rng: np.random.Generator) -> Launch:
    a, b, c = (rng.integers(0, 1 << 32, 32, dtype=np.uint32) for _ in range(3))
    tables = (0x00, 0x01, 0x80, 0xF0, 0xCC, 0xAA, 0xE8, 0x96, 0xCA, 0x1D, 0x6B, 0xFF)

    def lop3(x: int, y: int, z: int, table: int) -> int:
        return sum((table >> ((x >> k & 1) << 2 | (y >> k & 1) << 1 | z >> k & 1) & 1) << k for k in range(32))

    def formula(x: int, y: int, z: int) -> list[int]:
        plain = [x & y, x | y, x ^ y, ~x, x & y | ~x & z, x ^ y ^ z]
        return plain + [lop3(x, y, z, table) for table in tables]

    return Launch([np.zeros(18 * 32, np.uint32), a, b, c], {0: per_lane(formula, [a, b, c], np.uint32)})


@INTEGER.add()
def int_logic_widths(rng: np.random.Generator) -> Launch:
    a, b = (rng.integers(0, 1 << 64, 32, dtype=np.uint64) for _ in range(2))

    def formula(x: int, y: int) -> list[int]:
        return [x & y, x | y, x ^ y, ~x, x & y & M16, (x | y) & M16, (x ^ y) & M16]

    return Launch([np.zeros(7 * 32, np.uint64), a, b], {0: per_lane(formula, [a, b], np.uint64)})


#: prmt's special modes: byte selectors for each value of the control's low two bits, most significant first.
PRMT_MODES = {
    "f4e": ("3210", "4321", "5432", "6543"),
    "b4e": ("5670", "6701", "7012", "0123"),
    "rc8": ("0000", "1111", "2222", "3333"),
    "ecl": ("3210", "3211", "3222", "3333"),
    "ecr": ("0000", "1110", "2210", "3210"),
    "rc16": ("1010", "3232", "1010", "3232"),
}


@INTEGER.add(block=64)
def int_prmt(rng: np.random.Generator) -> Launch:
    a, b, c = (rng.integers(0, 1 << 32, 64, dtype=np.uint32) for _ in range(3))

    def formula(x: int, y: int, control: int) -> Iterator[int]:
        source = (y << 32 | x).to_bytes(8, "little")

        def general(selectors: list[int]) -> int:
            picked = [source[s & 7] if not s & 8 else 255 * (source[s & 7] >> 7) for s in selectors]
            return int.from_bytes(bytes(picked), "little")

        nibbles = [control >> 4 * k & 15 for k in range(4)]
        yield general([nibble & 7 for nibble in nibbles])  # __byte_perm has no sign replication
        yield general(nibbles)
        for modes in PRMT_MODES.values():
            yield general([int(digit) for digit in reversed(modes[control & 3])])

    return Launch([np.zeros(8 * 64, np.uint32), a, b, c], {0: per_lane(formula, [a, b, c], np.uint32)})


@INTEGER.add(block=64)
def int_dot(rng: np.random.Generator) -> Launch:
    a, b, c = (rng.permutation(words(rng, 64, np.uint32)) for _ in range(3))

    def parts(value: int, bits: int, is_signed: bool) -> list[int]:
        fields = [value >> k & (1 << bits) - 1 for k in range(0, 32, bits)]
        return [signed(part, bits) for part in fields] if is_signed else fields

    def dot(x: int, y: int, z: int, width: int, signs: str, half: int = 0) -> int:
        left, right = parts(x, width, signs[0] == "s"), parts(y, 8, signs[1] == "s")
        return z + sum(p * q for p, q in zip(left, right[2 * half :], strict=False))

    def formula(x: int, y: int, z: int) -> list[int]:
        args = (x, y, z)
        return [
            dot(*args, 8, "ss"), dot(*args, 8, "uu"), dot(*args, 8, "su"), dot(*args, 8, "us"),
            dot(*args, 16, "ss"), dot(*args, 16, "uu"), dot(*args, 16, "ss", 1), dot(*args, 16, "uu", 1),
            dot(*args, 16, "us"), dot(*args, 16, "su", 1),
        ]  # fmt: skip

    return Launch([np.zeros(10 * 64, np.uint32), a, b, c], {0: per_lane(formula, [a, b, c], np.uint32)})


@INTEGER.add()
def int128_carry(rng: np.random.Generator) -> Launch:
    a, b = (rng.permutation(words(rng, 64, np.uint64)) for _ in range(2))
    b[:8], b[32:40] = a[:8], a[32:40]

    def formula(alo: int, ahi: int, blo: int, bhi: int, lane: int) -> list[int]:
        x, y = ahi << 64 | alo, bhi << 64 | blo
        product64 = alo * blo
        low_sum = (alo & M32) + (blo & M32)
        high_word = low_sum + (low_sum >> 32) & M32
        return [
            x + y & M64, x + y >> 64 & M64, x + y >> 128,
            x - y & M64, x - y >> 64 & M64, -1 if x < y else 0,
            product64 & M64, product64 >> 64, high_word << 32 | low_sum & M32,
            x * y & M64, x * y >> 64 & M64, x + y & M64, x + y >> 64 & M64,
            x >> lane & M64, x >> lane >> 64, int(x < y),
        ]  # fmt: skip

    columns = [a[:32], a[32:], b[:32], b[32:], np.arange(32)]
    return Launch([np.zeros(16 * 32, np.uint64), a, b], {0: per_lane(formula, columns, np.uint64)})


@INTEGER.add(block=96)
def int_compare(rng: np.random.Generator) -> Launch:
    a, b = words(rng, 96, np.uint64), rng.permutation(words(rng, 96, np.uint64))
    b[40:48] = a[40:48]
    b[48:52] = a[48:52] ^ np.uint64(1 << 40)

    def formula(x: int, y: int) -> list[int]:
        p, q = x & M32, y & M32
        sp, sq, sx, sy = signed(p, 32), signed(q, 32), signed(x, 64), signed(y, 64)
        hp, hq = x & M16, y & M16
        tests = [
            p == q, p != q, sp < sq, sp <= sq, sp > sq, sp >= sq, p < q, p <= q, p > q, p >= q, p < q, p >= q,
            sx < sy, x <= y, sx > sy, x > y, x == y, p != q, signed(hp, 16) < signed(hq, 16), hp >= hq, hp == hq,
        ]  # fmt: skip
        negative, more, above = sp < 0, sp > sq, p > q
        both = (more and negative) + 2 * (not more and negative)
        both += 4 * (more or not negative) + 8 * (above != negative)
        last = above != negative
        some = (last and negative) or (last != negative)
        both += 16 * some + 32 * some
        selector = int(np.uint32(q).view(np.float32) >= 0)
        return [
            sum(bool(test) << k for k, test in enumerate(tests)), both, M32 if sp < sq else 0,
            0x3F800000 if p >= q else 0, p if signed(x >> 32, 32) >= 0 else q, p if selector else q,
        ]  # fmt: skip

    return Launch([np.zeros(6 * 96, np.uint32), a, b], {0: per_lane(formula, [a, b], np.uint32)})


def simd(x: int, y: int, width: int, is_signed: bool, function: Callable[[int, int], int]) -> int:
    """`function` on each `width`-bit part, results wrapped into place."""
    result, mask = 0, (1 << width) - 1
    for k in range(0, 32, width):
        p, q = x >> k & mask, y >> k & mask
        if is_signed:
            p, q = signed(p, width), signed(q, width)
        result |= (function(p, q) & mask) << k
    return result


@INTEGER.add(block=64)
def int_simd(rng: np.random.Generator) -> Launch:
    a, b = (rng.integers(0, 1 << 32, 64, dtype=np.uint32) for _ in range(2))
    a[:2] = 0x80008000, 0x80FF7F00
    b[:4] = 0x7FFF8000, 0x807F0180, a[2], a[3] ^ 0xFF00

    def total(x: int, y: int, width: int, is_signed: bool) -> int:
        parts = range(0, 32, width)
        view = (lambda v: signed(v, width)) if is_signed else (lambda v: v & (1 << width) - 1)
        return sum(abs(view(x >> k) - view(y >> k)) for k in parts)

    def formula(x: int, y: int, lane: int) -> list[int]:
        sx, sy = signed(x, 32), signed(y, 32)
        return [
            simd(x, y, 8, False, lambda p, q: p + q), simd(x, y, 8, False, lambda p, q: p - q),
            simd(x, y, 16, False, lambda p, q: p + q), simd(x, y, 16, False, lambda p, q: p - q),
            simd(x, y, 8, False, lambda p, q: p + q + 1 >> 1), simd(x, y, 8, False, lambda p, q: abs(p - q)),
            simd(x, y, 16, True, lambda p, q: abs(p - q)), simd(x, y, 8, True, max), simd(x, y, 8, False, min),
            simd(x, y, 16, False, max), simd(x, y, 16, True, min), total(x, y, 8, False), total(x, y, 16, True),
            simd(x, y, 8, False, lambda p, q: -(p > q)), simd(x, y, 8, False, lambda p, q: int(p == q)),
            simd(x, y, 16, True, lambda p, q: clamp(p + q, 16)),
            simd(x, y, 8, False, lambda p, q: clamp_unsigned(p + q, 8)),
            simd(x, y, 8, True, lambda p, q: clamp(p - q, 8)), simd(x, x, 16, True, lambda p, q: clamp(-p, 16)),
            simd(x, x, 8, True, lambda p, q: clamp(abs(p), 8)), max(sx, sy, lane), max(min(sx, sy), 0),
            simd(x, y, 16, True, lambda p, q: max(signed(p + q, 16), 5)),
        ]  # fmt: skip

    return Launch([np.zeros(23 * 64, np.uint32), a, b], {0: per_lane(formula, [a, b, np.arange(64)], np.uint32)})


@INTEGER.add(block=64)
def int_video(rng: np.random.Generator) -> Launch:
    a, b, c = (rng.permutation(words(rng, 64, np.uint32)) for _ in range(3))

    def formula(x: int, y: int, z: int) -> list[int]:
        sx, sy = signed(x, 32), signed(y, 32)
        apart = sum(abs(signed(x >> k, 16) - signed(y >> k, 16)) for k in (0, 16))
        return [
            clamp(x + sy, 32), max(x - y, 0), abs(sx - sy) + z, min(sx, sy), min(max(x, y), z), x << (y & 31),
            sx >> min(y, 32), sx * sy + signed(z, 32) >> 7, int(sx < sy), int(x >= y) + z,
            simd(x, y, 16, True, lambda p, q: clamp(p + q, 16)), simd(x, y, 8, False, lambda p, q: p - q),
            simd(x, y, 8, False, lambda p, q: p + q + 1 >> 1), simd(x, y, 8, False, lambda p, q: int(p > q)),
            simd(x, y, 8, True, max), apart + z,
        ]  # fmt: skip

    return Launch([np.zeros(16 * 64, np.uint32), a, b, c], {0: per_lane(formula, [a, b, c], np.uint32)})
