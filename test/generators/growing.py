# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules that grow along one axis each, as text: what bench/growth.py measures, and tests of growth count."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

_POINTER, _SCALAR = "tile<ptr<i32>>", "tile<i32>"


def kernel(body: Iterable[str], name: str = "k", parameters: str = f"%p: {_POINTER}, %n: {_SCALAR}") -> str:
    """A kernel of these lines."""
    lines = "\n".join(f"    {line}" for line in body)
    return f"  entry @{name}({parameters}) {{\n{lines}\n    return\n  }}\n"


def module(*items: str) -> str:
    """A module of these variables and kernels."""
    return f"cuda_tile.module @m {{\n{''.join(items)}}}\n"


def stored(value: str, pointer: str = "%p") -> str:
    """A store of a scalar to where the parameter points."""
    return f"store_ptr_tko weak {pointer}, {value} : {_POINTER}, {_SCALAR} -> token"


BOUNDS = ("%zero = constant <i32: 0> : tile<i32>", "%one = constant <i32: 1> : tile<i32>")


def scalar_chain(count: int) -> str:
    """`count` scalar ops, each of which uses the one before."""
    body, last = [], "%n"
    for number in range(count):
        op = ("muli", "xori", "addi")[number % 3]
        body.append(f"%v{number} = {op} {last}, {'%n' if number < 2 else f'%v{number - 2}'} : {_SCALAR}")
        last = f"%v{number}"
    return module(kernel([*body, stored(last)]))


def tile_chain(count: int) -> str:
    """`count` elementwise ops on tiles of 512 elements, each of which uses the one before."""
    tile, pointers = "tile<512xf32>", "tile<512xptr<f32>>"
    body = [
        "%i = iota : tile<512xi32>",
        "%r = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>",
        f"%b = broadcast %r : tile<1xptr<f32>> -> {pointers}",
        f"%a = offset %b, %i : {pointers}, tile<512xi32> -> {pointers}",
        f"%x, %t = load_ptr_tko weak %a : {pointers} -> {tile}, token",
    ]
    last = "%x"
    for number in range(count):
        op = ("mulf", "addf")[number % 2]
        body.append(f"%v{number} = {op} {last}, %x rounding<nearest_even> : {tile}")
        last = f"%v{number}"
    body.append(f"store_ptr_tko weak %a, {last} token=%t : {pointers}, {tile} -> token")
    return module(kernel(body, parameters="%p: tile<ptr<f32>>"))


def token_chain(count: int) -> str:
    """`count` stores and loads, each ordered behind the one before by its token."""
    body = ["%t0 = make_token : token"]
    for number in range(count):
        if number % 2:
            body.append(
                f"%v{number}, %t{number + 1} = load_ptr_tko weak %p token=%t{number} : {_POINTER} -> {_SCALAR}, token"
            )
        else:
            value = f"%v{number - 1}" if number else "%n"
            body.append(
                f"%t{number + 1} = store_ptr_tko weak %p, {value} token=%t{number} : {_POINTER}, {_SCALAR} -> token"
            )
    return module(kernel(body))


def loop_row(count: int) -> str:
    """`count` loops behind one another, each of which starts with what the one before made."""
    body, last = list(BOUNDS), "%n"
    for number in range(count):
        body += [
            f"%v{number} = for %i{number} in (%zero to %n, step %one) : {_SCALAR} "
            f"iter_values(%c{number} = {last}) -> ({_SCALAR}) {{",
            f"  %s{number} = muli %c{number}, %i{number} : {_SCALAR}",
            f"  %x{number} = xori %s{number}, %n : {_SCALAR}",
            f"  continue %x{number} : {_SCALAR}",
            "}",
        ]
        last = f"%v{number}"
    return module(kernel([*body, stored(last)]))


def loop_nest(depth: int) -> str:
    """Loops inside one another, `depth` deep, each with a carried value."""
    body, last = list(BOUNDS), "%n"
    for number in range(depth):
        body.append(
            f"%v{number} = for %i{number} in (%zero to %n, step %one) : {_SCALAR} "
            f"iter_values(%c{number} = {last}) -> ({_SCALAR}) {{"
        )
        last = f"%c{number}"
    body.append(f"%x = muli {last}, %n : {_SCALAR}")
    last = "%x"
    for number in reversed(range(depth)):
        body += [f"continue {last} : {_SCALAR}", "}"]
        last = f"%v{number}"
    return module(kernel([*body, stored(last)]))


def tile_nest(depth: int) -> str:
    """Loops inside one another, `depth` deep, each of which carries a tile that it adds to, loads and stores."""
    tile, pointers = "tile<512xf32>", "tile<512xptr<f32>>"
    body = [
        *BOUNDS,
        "%i = iota : tile<512xi32>",
        "%r = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>",
        f"%b = broadcast %r : tile<1xptr<f32>> -> {pointers}",
        f"%a = offset %b, %i : {pointers}, tile<512xi32> -> {pointers}",
        "%t = make_token : token",
        f"%x = constant <f32: 1.0> : {tile}",
    ]
    last, token = "%x", "%t"
    for number in range(depth):
        body += [
            f"%v{number}, %w{number} = for %i{number} in (%zero to %n, step %one) : {_SCALAR} "
            f"iter_values(%c{number} = {last}, %d{number} = {token}) -> ({tile}, token) {{",
            f"%e{number}, %f{number} = load_ptr_tko weak %a token=%d{number} : {pointers} -> {tile}, token",
            f"%g{number} = addf %c{number}, %e{number} rounding<nearest_even> : {tile}",
        ]
        last, token = f"%g{number}", f"%f{number}"
    for number in reversed(range(depth)):
        body += [
            f"%s{number} = store_ptr_tko weak %a, {last} token={token} : {pointers}, {tile} -> token",
            f"continue {last}, %s{number} : {tile}, token",
            "}",
        ]
        last, token = f"%v{number}", f"%w{number}"
    body.append(f"store_ptr_tko weak %a, {last} token={token} : {pointers}, {tile} -> token")
    return module(kernel(body, parameters=f"%p: tile<ptr<f32>>, %n: {_SCALAR}"))


def if_nest(depth: int) -> str:
    """Conditions inside one another, `depth` deep, each with a result."""
    body = list(BOUNDS)
    for number in range(depth):
        body += [
            f"%a{number} = addi {f'%a{number - 1}' if number else '%n'}, %one : {_SCALAR}",
            f"%b{number} = cmpi less_than %a{number}, %n, signed : {_SCALAR} -> tile<i1>",
            f"%v{number} = if %b{number} -> ({_SCALAR}) {{",
        ]
    last = "%n"
    for number in reversed(range(depth)):
        body += [f"yield {last} : {_SCALAR}", "} else {", f"yield %a{number} : {_SCALAR}", "}"]
        last = f"%v{number}"
    return module(kernel([*body, stored(last)]))


def product_row(count: int) -> str:
    """`count` loops behind one another, each of which adds products to one accumulator."""
    view = "tensor_view<?x?xf16, strides=[?,1]>"
    part = f"partition_view<tile=(16x16), {view}>"
    tile, sums = "tile<16x16xf16>", "tile<16x16xf32>"
    out = "tensor_view<?x?xf32, strides=[?,1]>"
    out_part = f"partition_view<tile=(16x16), {out}>"
    body = [
        *BOUNDS,
        f"%tv = make_tensor_view %p, shape = [%n, %n], strides = [%n, 1] : {_SCALAR} -> {view}",
        f"%tw = make_tensor_view %q, shape = [%n, %n], strides = [%n, 1] : {_SCALAR} -> {out}",
        f"%pv = make_partition_view %tv : {part}",
        f"%pw = make_partition_view %tw : {out_part}",
        f"%c = constant <f32: 0.0> : {sums}",
    ]
    last = "%c"
    for number in range(count):
        i = f"%i{number}"
        body += [
            f"%v{number} = for {i} in (%zero to %n, step %one) : {_SCALAR} "
            f"iter_values(%c{number} = {last}) -> ({sums}) {{",
            f"  %a{number}, %t{number} = load_view_tko weak %pv[%zero, {i}] : {part}, {_SCALAR} -> {tile}, token",
            f"  %b{number}, %u{number} = load_view_tko weak %pv[{i}, %zero] : {part}, {_SCALAR} -> {tile}, token",
            f"  %d{number} = mmaf %a{number}, %b{number}, %c{number} : {tile}, {tile}, {sums}",
            f"  continue %d{number} : {sums}",
            "}",
        ]
        last = f"%v{number}"
    body.append(f"store_view_tko weak {last}, %pw[%zero, %zero] : {sums}, {out_part}, {_SCALAR} -> token")
    return module(kernel(body, parameters=f"%p: tile<ptr<f16>>, %q: tile<ptr<f32>>, %n: {_SCALAR}"))


def entries(count: int) -> str:
    """`count` kernels of three ops."""
    body = [f"%v = muli %n, %n : {_SCALAR}", stored("%v")]
    return module(*(kernel(body, name=f"k{number}") for number in range(count)))


def globals_(count: int) -> str:
    """`count` variables of the module, each of which the kernel reads."""
    variables = [f"  global @g{number} <i32: {number}> : tile<1xi32>\n" for number in range(count)]
    body, last = [], "%n"
    for number in range(count):
        body += [
            f"%a{number} = get_global @g{number} : {_POINTER}",
            f"%x{number}, %t{number} = load_ptr_tko weak %a{number} : {_POINTER} -> {_SCALAR}, token",
            f"%v{number} = xori {last}, %x{number} : {_SCALAR}",
        ]
        last = f"%v{number}"
    return module(*variables, kernel([*body, stored(last)]))


def arguments(count: int) -> str:
    """A kernel of `count` parameters, all of which it uses."""
    body, last = [], "%n0"
    for number in range(1, count):
        body.append(f"%v{number} = xori {last}, %n{number} : {_SCALAR}")
        last = f"%v{number}"
    parameters = ", ".join([f"%p: {_POINTER}", *(f"%n{number}: {_SCALAR}" for number in range(count))])
    return module(kernel([*body, stored(last)], parameters=parameters))


def tile_size(elements: int) -> str:
    """A load, four elementwise ops and a store of a tile of `elements` elements."""
    tile, pointers = f"tile<{elements}xf32>", f"tile<{elements}xptr<f32>>"
    body = [
        f"%i = iota : tile<{elements}xi32>",
        "%r = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>",
        f"%b = broadcast %r : tile<1xptr<f32>> -> {pointers}",
        f"%a = offset %b, %i : {pointers}, tile<{elements}xi32> -> {pointers}",
        f"%x, %t = load_ptr_tko weak %a : {pointers} -> {tile}, token",
        f"%v0 = mulf %x, %x rounding<nearest_even> : {tile}",
        f"%v1 = addf %v0, %x rounding<nearest_even> : {tile}",
        f"%v2 = mulf %v1, %x rounding<nearest_even> : {tile}",
        f"%v3 = addf %v2, %x rounding<nearest_even> : {tile}",
        f"store_ptr_tko weak %a, %v3 token=%t : {pointers}, {tile} -> token",
    ]
    return module(kernel(body, parameters="%p: tile<ptr<f32>>"))


def dense_constant(elements: int) -> str:
    """A variable of `elements` elements that differ."""
    values = ", ".join(str(number * 2654435761 % 2**31) for number in range(elements))
    body = [
        f"%a = get_global @g : {_POINTER}",
        f"%x, %t = load_ptr_tko weak %a : {_POINTER} -> {_SCALAR}, token",
        stored("%x"),
    ]
    return module(f"  global @g <i32: [{values}]> : tile<{elements}xi32>\n", kernel(body))


@dataclass(frozen=True)
class Family:
    """An axis: what is counted, the function that makes a module of that many, and the sizes to measure."""

    axis: str
    make: Callable[[int], str]
    sizes: tuple[int, ...]


_DECADES = (10, 100, 1000, 3162, 10000)

FAMILIES = {
    "scalar_chain": Family("dependent scalar ops", scalar_chain, _DECADES),
    "tile_chain": Family("dependent ops on tiles of 512", tile_chain, _DECADES),
    "token_chain": Family("stores and loads, each behind the token of the one before", token_chain, _DECADES),
    "loop_row": Family("loops in a row", loop_row, (1, 10, 32, 100, 316, 1000)),
    "product_row": Family("loops with products in a row", product_row, (1, 3, 10, 32, 100)),
    "loop_nest": Family("loops in one another", loop_nest, (1, 3, 10, 30, 90)),
    "tile_nest": Family("loops in one another that load and store", tile_nest, (1, 3, 10, 30, 90)),
    "if_nest": Family("conditions in one another", if_nest, (1, 3, 10, 30, 90)),
    "entries": Family("kernels of a module", entries, (1, 10, 100, 316, 1000)),
    "globals": Family("variables of a module", globals_, (10, 100, 1000, 10000)),
    "arguments": Family("parameters of a kernel", arguments, (10, 100, 316, 1000)),
    "tile_size": Family("elements of a tile", tile_size, tuple(1 << n for n in (7, 10, 12, 13, 14, 17, 20, 24))),
    "dense_constant": Family(
        "elements of a variable", dense_constant, (1 << 4, 1 << 7, 1 << 10, 1 << 14, 1 << 17, 1 << 20)
    ),
}
