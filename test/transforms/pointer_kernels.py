# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels that address strided tensors by tiles of pointers, as frontends without views write them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

import libtile


@dataclass
class Body:
    """Lines of a kernel; values are made where they are first asked for, in the order of the calls."""

    lines: list[str] = field(default_factory=list)
    count: int = 0

    def op(self, text: str) -> str:
        """Add an op with one result; returns the result's name."""
        self.count += 1
        self.lines.append(f"%v{self.count} = {text}")
        return f"%v{self.count}"

    def spread(self, scalar: str, shape: tuple[int, ...], element: str = "i32") -> str:
        ones, full = "x".join(["1"] * len(shape)), "x".join(map(str, shape))
        one = self.op(f"reshape {scalar} : tile<{element}> -> tile<{ones}x{element}>")
        return self.op(f"broadcast {one} : tile<{ones}x{element}> -> tile<{full}x{element}>")

    def positions(self, start: str, dim: int, shape: tuple[int, ...], bits: int = 32) -> str:
        """start + 0, start + 1, ... along a dimension."""
        extent, full = shape[dim], "x".join(map(str, shape))
        flat = "x".join(str(extent) if d == dim else "1" for d in range(len(shape)))
        count = self.op(f"iota : tile<{extent}xi32>")
        count = self.op(f"reshape {count} : tile<{extent}xi32> -> tile<{flat}xi32>")
        count = self.op(f"broadcast {count} : tile<{flat}xi32> -> tile<{full}xi32>")
        sum_ = self.op(f"addi {self.spread(start, shape)}, {count} : tile<{full}xi32>")
        return sum_ if bits == 32 else self.op(f"exti {sum_} signed : tile<{full}xi32> -> tile<{full}xi{bits}>")

    def address(
        self,
        pointer: str,
        element: str,
        shape: tuple[int, ...],
        starts: tuple[str, ...],
        strides: tuple[str | None, ...],
        unsigned: bool = False,
    ) -> str:
        """The pointers of a tile; see `access`."""
        bits, full = 64 if unsigned else 32, "x".join(map(str, shape))
        positions = [self.positions(start, dim, shape, bits) for dim, start in enumerate(starts)]
        total = None
        for position, stride in zip(positions, strides):
            if stride is not None:
                stride = stride if bits == 32 else self.op(f"exti {stride} signed : tile<i32> -> tile<i64>")
                factor = self.spread(stride, shape, f"i{bits}")
                flag = "" if unsigned else " overflow<no_signed_wrap>"
                position = self.op(f"muli {position}, {factor}{flag} : tile<{full}xi{bits}>")
            flag = "" if unsigned else " overflow<no_signed_wrap>"
            total = position if total is None else self.op(f"addi {total}, {position}{flag} : tile<{full}xi{bits}>")
        base = self.spread(pointer, shape, f"ptr<{element}>")
        pointers = f"tile<{full}xptr<{element}>>"
        return self.op(f"offset {base}, {total} : {pointers}, tile<{full}xi{bits}> -> {pointers}")

    def access(
        self,
        pointer: str,
        element: str,
        shape: tuple[int, ...],
        starts: tuple[str, ...],
        strides: tuple[str | None, ...],
        sizes: tuple[str | None, ...] = (),
        *,
        padding: str | None = "0.0",
        store: str = "",
        unsigned: bool = False,
        predicate: str = "less_than",
        token: str = "",
        at: str = "",
    ) -> str:
        """A load, or a store of the value `store`, of the tile that starts at `starts`. A stride of None is 1.

        `unsigned` computes in 64 bits, and compares positions with the sizes so that negative ones are masked, too.
        `at` are pointers that are there already, of which `starts` say for the mask what they are.
        """
        bits = 64 if unsigned else 32
        full = "x".join(map(str, shape))
        pointers = f"tile<{full}xptr<{element}>>"
        address = at or self.address(pointer, element, shape, starts, strides, unsigned)
        positions = [self.positions(start, dim, shape, bits) for dim, start in enumerate(starts)]
        mask = None
        for position, size in zip(positions, sizes):
            if size is not None:
                size = size if bits == 32 else self.op(f"exti {size} signed : tile<i32> -> tile<i64>")
                operands = f"{position}, {self.spread(size, shape, f'i{bits}')}"
                sign = "unsigned" if unsigned else "signed"
                inside = self.op(f"cmpi {predicate} {operands}, {sign} : tile<{full}xi{bits}> -> tile<{full}xi1>")
                mask = inside if mask is None else self.op(f"andi {mask}, {inside} : tile<{full}xi1>")
        after = f" token={token}" if token else ""
        if store:
            operands = ", ".join(filter(None, (address, store, mask)))
            types = ", ".join(filter(None, (pointers, f"tile<{full}x{element}>", mask and f"tile<{full}xi1>")))
            return self.op(f"store_ptr_tko weak {operands}{after} : {types} -> token")
        fill = None
        if mask is not None and padding is not None:
            kind = "f" if element.startswith(("f", "bf")) else "i"
            value = padding if kind == "f" else str(int(float(padding)))
            fill = self.op(f"constant <{element}: {value}> : tile<{full}x{element}>")
        operands = ", ".join(filter(None, (address, mask, fill)))
        types = ", ".join(filter(None, (pointers, mask and f"tile<{full}xi1>", fill and f"tile<{full}x{element}>")))
        self.count += 1
        result = f"%v{self.count}"
        self.lines.append(
            f"{result}, %t{self.count} = load_ptr_tko weak {operands}{after} : {types} -> tile<{full}x{element}>, token"
        )
        return result

    def text(self, parameters: str) -> str:
        inner = "\n    ".join(self.lines)
        return f"cuda_tile.module @m {{\n  entry @kernel({parameters}) {{\n    {inner}\n    return\n  }}\n}}\n"


ASSUMED = """\
%a = assume div_by<16>, %a0 : tile<ptr<f16>>
%b = assume div_by<16>, %b0 : tile<ptr<f16>>
%c = assume div_by<16>, %c0 : tile<ptr<f32>>
%m = assume bounded<1, 65536>, %m0 : tile<i32>
%n1 = assume bounded<1, 65536>, %n0 : tile<i32>
%n = assume div_by<8>, %n1 : tile<i32>
%k1 = assume bounded<1, 65536>, %k0 : tile<i32>
%k = assume div_by<8>, %k1 : tile<i32>
%zero = constant <i32: 0> : tile<i32>
%one = constant <i32: 1> : tile<i32>
%c32 = constant <i32: 32> : tile<i32>
%none = constant <f32: 0.0> : tile<32x32xf32>
%x, %y, %z = get_tile_block_id : tile<i32>
%row = muli %x, %c32 : tile<i32>
%col = muli %y, %c32 : tile<i32>"""

PARAMETERS = (
    "%a0: tile<ptr<f16>>, %b0: tile<ptr<f16>>, %c0: tile<ptr<f32>>, %m0: tile<i32>, %n0: tile<i32>, %k0: tile<i32>"
)
T = (32, 32)


def product(kind: str) -> str:
    """c = a @ b (row-major, m x k and k x n) by tiles of 32 x 32, written in different ways:

    `masked`: bounds of everything, in a loop over elements. `blocks`: a loop over tiles. `remaining`: the mask compares
    with what remains of k. `whole`: no masks on loads, for sizes that are multiples of the tile's. `transposed`: b is
    n x k. `unsigned`: 64 bits, and unsigned comparisons, as cuTile's gathers. `batched`: the third dimension of the
    grid is a batch. `carried`: the loop moves tiles of pointers on, as Triton's tutorials do; `carried_elements`: in a
    loop over elements; `looped` and `looped_down`: a `loop` carries them, and a number that counts the tiles, or those
    that are left.
    """
    body = Body(ASSUMED.split("\n"))
    by_tile = kind in ("blocks", "remaining", "whole", "carried", "looped", "looped_down")
    looped, down_ = kind.startswith("looped"), kind == "looped_down"
    moves = kind.startswith("carried") or looped
    a, b, c = "%a", "%b", "%c"
    if kind == "batched":
        for name, (rows, columns) in {"a": ("%m", "%k"), "b": ("%k", "%n"), "c": ("%m", "%n")}.items():
            size = body.op(f"muli {rows}, {columns} overflow<no_signed_wrap> : tile<i32>")
            wide = body.op(f"exti {size} signed : tile<i32> -> tile<i64>")
            number = body.op("exti %z signed : tile<i32> -> tile<i64>")
            distance = body.op(f"muli {number}, {wide} : tile<i64>")
            type_ = "f32" if name == "c" else "f16"
            moved = body.op(f"offset %{name}, {distance} : tile<ptr<{type_}>>, tile<i64> -> tile<ptr<{type_}>>")
            a, b, c = (moved if letter == name else old for letter, old in zip("abc", (a, b, c)))
    bound, step = "%k", "%c32"
    if by_tile:
        bound, step = body.op("divi %k, %c32 signed rounding<positive_inf> : tile<i32>"), "%one"
    carried, results, pointers = "%acc = %none", "%sum", ""
    if moves:
        pointers = ", tile<32x32xptr<f16>>, tile<32x32xptr<f16>>"
        results = "%sum, %aend, %bend"
        first = body.address(a, "f16", T, ("%row", "%zero"), ("%k", None))
        second = body.address(b, "f16", T, ("%zero", "%col"), ("%n", None))
        along, down = body.spread("%c32", T), body.spread(body.op("muli %n, %c32 : tile<i32>"), T)
        carried += f", %at = {first}, %bt = {second}"
    types = f"tile<32x32xf32>{pointers}"
    if looped:
        first_number, ask = (bound, "less_than_or_equal %i, %zero") if down_ else ("%zero", f"less_than %i, {bound}")
        types = f"tile<i32>, {types}"
        head = f"loop iter_values(%i = {first_number}, {carried}) : {types} -> {types}"
        body.lines.append(f"%iend, {results} = {head} {{")
        asked = body.op(f"cmpi {ask}, signed : tile<i32> -> tile<i1>")
        leave = f"break %i, %acc, %at, %bt : {types}"
        body.lines.append(f"if {asked} {{\n{leave}\n}}" if down_ else f"if {asked} {{\n}} else {{\n{leave}\n}}")
    else:
        loop = f"for %i in (%zero to {bound}, step {step}) : tile<i32> iter_values({carried})"
        body.lines.append(f"{results} = {loop} -> ({types}) {{")
    number = body.op(f"subi {bound}, %i : tile<i32>") if down_ else "%i"
    at = body.op(f"muli {number}, %c32 : tile<i32>") if by_tile else "%i"
    rows, columns, depth = ("%m", "%n", "%k") if kind != "whole" else (None, None, None)
    more = {"unsigned": kind == "unsigned"}
    if kind == "remaining":
        depth = body.op(f"subi %k, {at} : tile<i32>")
        base_a = body.op(f"offset {a}, {at} : tile<ptr<f16>>, tile<i32> -> tile<ptr<f16>>")
        down = body.op(f"muli {at}, %n overflow<no_signed_wrap> : tile<i32>")
        base_b = body.op(f"offset {b}, {down} : tile<ptr<f16>>, tile<i32> -> tile<ptr<f16>>")
        x = body.access(base_a, "f16", T, ("%row", "%zero"), ("%k", None), (rows, depth))
        y = body.access(base_b, "f16", T, ("%zero", "%col"), ("%n", None), (depth, columns))
    elif moves:
        depth = body.op(f"subi %k, {at} : tile<i32>")
        x = body.access(a, "f16", T, ("%row", "%zero"), ("%k", None), (rows, depth), at="%at")
        y = body.access(b, "f16", T, ("%zero", "%col"), ("%n", None), (depth, columns), at="%bt")
    else:
        x = body.access(a, "f16", T, ("%row", at), ("%k", None), (rows, depth), **more)
        strides = (None, "%k") if kind == "transposed" else ("%n", None)
        y = body.access(b, "f16", T, (at, "%col"), strides, (depth, columns), **more)
    sum_ = body.op(f"mmaf {x}, {y}, %acc : tile<32x32xf16>, tile<32x32xf16>, tile<32x32xf32>")
    ends = [sum_]
    for name, step_ in (("%at", along), ("%bt", down)) if moves else ():
        moved = "tile<32x32xptr<f16>>, tile<32x32xi32> -> tile<32x32xptr<f16>>"
        ends.append(body.op(f"offset {name}, {step_} : {moved}"))
    if looped:
        ends.insert(0, body.op(f"{'subi' if down_ else 'addi'} %i, %one : tile<i32>"))
    body.lines += [f"continue {', '.join(ends)} : {types}", "}"]
    body.access(c, "f32", T, ("%row", "%col"), ("%n", None), ("%m", "%n"), store="%sum", **more)
    return body.text(PARAMETERS)


PRODUCTS = (
    "masked",
    "blocks",
    "remaining",
    "whole",
    "transposed",
    "unsigned",
    "batched",
    "carried",
    "carried_elements",
    "looped",
    "looped_down",
)


def check_same_products(kind: str, module: libtile.Module) -> None:
    """That a module computes to the bit what `product(kind)` does, and the product. Unless tensors are whole tiles,
    there is one block more than rows, whose tiles lie outside of the tensor."""
    m, n, k = (64, 64, 64) if kind == "whole" else (40, 48, 72)
    rng = np.random.default_rng(3)
    batches = 2 if kind == "batched" else 1
    a = rng.standard_normal((batches, m, k)).astype(np.float16)
    b = rng.standard_normal((batches, k, n)).astype(np.float16)
    given = np.ascontiguousarray(b.transpose(0, 2, 1)) if kind == "transposed" else b
    results = []
    for version in (libtile.parse(product(kind)), module):
        c = np.zeros((batches, m, n), np.float32)
        libtile.run(
            version, "kernel", grid=(2 if kind == "whole" else 3, 2, batches), args=[a, given, c, m, n, k], check="full"
        )
        results.append(c)
    assert results[0].tobytes() == results[1].tobytes()
    np.testing.assert_allclose(results[0], a.astype(np.float32) @ b.astype(np.float32), rtol=1e-2, atol=1e-2)
