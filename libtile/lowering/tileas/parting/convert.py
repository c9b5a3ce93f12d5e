# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions with products become nv_tileas: what passes behind will do is looked at where it is to serve agents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod

from xdsl.dialects.builtin import StringAttr

from libtile.atoms import tcgen05, wgmma
from libtile.dialects import scf
from libtile.dialects.nv_tileaa.attributes import KernelSpecAttr
from libtile.dialects.nv_tileaa.collectives import DotOp, ScaledDotOp
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.ir.places import ops_of
from libtile.ir.tile_form import shape_of
from libtile.lowering.agents import has_agents
from libtile.lowering.discardable import FEWER_BLOCKS
from libtile.lowering.tileas.agents.consumers import OTHER_REGISTERS
from libtile.lowering.tileas.cleanup import clean_up
from libtile.lowering.tileas.copies.tma_operands import Unfit
from libtile.lowering.tileas.memory.shared_memory import block_bytes
from libtile.lowering.tileas.parting.read_lines import read_lines
from libtile.lowering.tileas.pipelines.schedule import is_zero
from libtile.lowering.tileas.products.exchanged_views import exchange_views
from libtile.lowering.tileas.products.few_rows import with_few_columns
from libtile.lowering.tileas.products.lone_chains import lone_chain, loop_around_chain
from libtile.lowering.tileas.products.lone_products import (
    is_nest,
    loaded_bytes,
    lone_products,
    loop_around,
    start_with_zeros,
)
from libtile.lowering.tileas.products.narrow_tiles import with_narrow_tiles
from libtile.lowering.tileas.products.packed_products import pack_products
from libtile.lowering.tileas.products.product_forms import (
    are_fed,
    by_loop,
    products_in_loops,
    transpose_of_zeros,
    transposed,
    without_batch,
)
from libtile.lowering.tileas.products.read_to_registers import read_to_registers
from libtile.lowering.tileas.products.result_parts import cut_result, is_crowded, result_part_shape
from libtile.lowering.tileas.products.scalar_steps import with_scalar_steps
from libtile.lowering.tileas.products.single_batches import in_single_batches
from libtile.lowering.tileas.products.turned_bytes import turn_products_of_bytes
from libtile.lowering.tileas.tensor_memory.stage_results import StageResult, columns_of, products_in_tensor_memory
from libtile.lowering.tileas.tensor_memory.tensor_steps import warps_of_results
from libtile.lowering.to_tileas.conversion import convert_function
from libtile.lowering.to_tileas.products import tensor_memory_atom
from libtile.lowering.to_tileas.stage_products import tensor_products_of_stages
from libtile.targets import Target, target


def convert_products(function: FuncOp, *, whole_rows: bool = False, for_agents: bool = False) -> FuncOp:
    """The function with layouts for what its products become, those of packed operands as products of bytes: layouts of
    agents where these may be, with `for_agents`, or else with `whole_rows` whole rows of warps for each result."""
    spec = function.kernel_spec
    if spec is not None and spec.target is not None:
        pack_products(function, target(spec.target))
        turn_products_of_bytes(function, target(spec.target))
        exchange_views(function, target(spec.target))
    return convert_agents(function, convert_for_agents if for_agents else partial(_in_parts, whole_rows=whole_rows))


def convert_agents(function: FuncOp, convert: Callable[[FuncOp], FuncOp]) -> FuncOp:
    """The function with the results of as many products of written agents in tensor memory as fit there; without any,
    what `convert` makes of it."""
    spec = function.kernel_spec
    gpu = target(spec.target) if spec is not None and spec.target is not None else None
    wanted = tensor_products_of_stages(function, gpu) if gpu is not None else []
    while wanted and gpu is not None:
        made = convert_function(function, in_tensor_memory=wanted)
        clean_up(made)
        fit = list(_fitting(made, gpu))
        if all(fit):
            return made
        wanted = [product for product, fits in zip(wanted, fit, strict=True) if fits]
    return convert(function)


def _fitting(function: FuncOp, gpu: Target) -> Iterator[bool]:
    """For each product whose result is to lie in tensor memory, whether it fits, beside those before."""
    spec = function.kernel_spec
    found: list[StageResult] = []
    for product in products_in_tensor_memory(function):
        try:
            found.append(StageResult(function, gpu, product))
        except Unfit:
            yield False
            continue
        columns = tcgen05.COLUMNS // ((spec.occupancy if spec is not None else None) or 1)
        fits = tcgen05.allocated_columns((tcgen05.LANES, columns_of(found))) <= columns
        if not fits:
            found.pop()
        yield fits


def convert_for_agents(function: FuncOp) -> FuncOp:
    """The function with layouts of warpgroups where `tileas-specialize` will part it, and with others elsewhere."""
    spec = function.kernel_spec
    gpu = target(spec.target) if spec is not None and spec.target is not None else None
    if gpu is not None and _lone_products(function, gpu):
        made = _converted(_with_loops(function, gpu), gpu)
        if made is not None:
            return made
    if gpu is not None and gpu.has("wgmma") and lone_chain(function):
        copy = function.clone()
        loop_around_chain(lone_chain(copy))
        if (made := _converted(copy, gpu)) is not None:
            return made
    if gpu is None or not any(_repeated(function, gpu)):
        return convert_function(function)
    # Products of registers have the same layouts with a producer and without.
    made = _converted(function, gpu) if gpu.has("wgmma") or gpu.has("tcgen05") else None
    return made or _with_fewer_blocks(function, gpu) or _in_parts(function)


def _with_fewer_blocks(function: FuncOp, gpu: Target) -> FuncOp | None:
    """The function with layouts of agents, for fewer blocks of a multiprocessor than it asks for; None where it has
    none then either, or for a target or a kernel without such agents. The results of its products, and what a loop of
    them takes at least beside, have to be more registers than so many blocks leave to a thread, which would keep the
    rest in local memory without agents; or the tiles that products read in a step more memory, of which threads would
    bring one after the other; or products to be those of tensor memory, which nothing else comes near."""
    spec = function.kernel_spec
    if spec is None or not (gpu.has("wgmma") or gpu.has("tcgen05")):
        return None
    threads = spec.num_warps * gpu.warp_size
    loops = by_loop([op for op in _repeated(function, gpu) if isinstance(op, DotOp)])
    taken = max((sum(prod(shape_of(op.result.type)) for op in loop) // threads for loop in loops), default=0)
    left = gpu.registers_per_sm // (spec.occupancy or 1) // threads
    loaded, free = max(map(loaded_bytes, loops), default=0), block_bytes(gpu, spec)
    if taken + OTHER_REGISTERS > left:
        reason = f"results of products take {taken} registers of a thread, of {left} that so many blocks leave"
    elif loaded > free:
        reason = f"tiles that products read in a step take {loaded} bytes, of {free} that so many blocks leave"
    elif gpu.has("tcgen05"):
        reason = "tiles of products and their results take more memory than so many blocks leave"
    else:
        return None
    for blocks in range((spec.occupancy or 1) - 1, 0, -1):
        copy = function.clone()
        copy.properties["kernel_spec"] = KernelSpecAttr(spec.entry, spec.num_warps, spec.num_ctas, blocks, spec.target)
        if (made := _converted(copy, gpu)) is not None:
            made.attributes[FEWER_BLOCKS] = StringAttr(reason)
            return made
    return None


def _in_parts(function: FuncOp, *, whole_rows: bool = False) -> FuncOp:
    """The function with layouts of its products, and what is behind their loops done part by part where it is crowded:
    `strip-mine` counts on that at every level."""
    if not ops_of(function, DotOp):
        return convert_function(function, whole_rows=whole_rows)
    copy = function.clone()
    for product in ops_of(copy, DotOp):
        _cut_crowded(copy, product)
    return convert_function(copy, whole_rows=whole_rows)


def _lone_products(function: FuncOp, gpu: Target) -> bool:
    """Whether there are products in no loop that agents may share. A producer for mma.sync needs several, or a loop
    beside one: it copies the tiles of one while another one is computed."""
    if not gpu.has("tma"):
        return False
    found = _alone(function, gpu)
    few = gpu.has("tcgen05") or gpu.has("wgmma") or any(is_nest(product.parent_op()) for (product, *_) in found)
    return len(found) > (0 if few else 1)


def _alone(function: FuncOp, gpu: Target) -> list[list[DotOp]]:
    """The products in no loop over steps that get one. By wgmma, a product in each turn of a loop over tiles has its
    steps there, so that tiles of the next turns are copied meanwhile."""
    return lone_products(function, of_tiles=not gpu.has("wgmma"))


def _with_loops(function: FuncOp, gpu: Target) -> FuncOp:
    """A copy of the function whose lone products are in loops of one turn."""
    copy = function.clone()
    for group in _alone(copy, gpu):
        loop_around(group)
    return copy


def _converted(function: FuncOp, gpu: Target) -> FuncOp | None:
    """The function with layouts of agents, as it is or with narrower tiles; None where it is not one that
    `tileas-specialize` parts."""
    made = _converted_whole(function, gpu)
    if made is not None or not (gpu.has("wgmma") or gpu.has("tcgen05")):
        return made
    narrow = with_narrow_tiles(function)
    if narrow is None:
        return None
    return (_converted_whole(_by_two_groups(narrow), gpu) if gpu.has("wgmma") else None) or _converted_whole(
        narrow, gpu
    )


def _by_two_groups(function: FuncOp) -> FuncOp:
    """The function with two warpgroups: sums of many narrow tiles leave one no registers for the rest."""
    copy, spec = function.clone(), function.kernel_spec
    assert spec is not None
    warps = max(spec.num_warps, 2 * wgmma.GROUP_WARPS)
    copy.properties["kernel_spec"] = KernelSpecAttr(spec.entry, warps, spec.num_ctas, spec.occupancy, spec.target)
    return copy


def _converted_whole(function: FuncOp, gpu: Target) -> FuncOp | None:
    """As `_converted`, with tiles as they are."""
    function = _of_matrices(with_scalar_steps(function), gpu)
    function = with_few_columns(function, tcgen05.HALF_LANES if gpu.has("tcgen05") else wgmma.ROWS) or function
    if gpu.has("wgmma"):
        function = _with_rows(function, gpu)
    spec, repeated = function.kernel_spec, list(_repeated(function, gpu))
    if spec is None or not repeated:
        return None
    from libtile.lowering.tileas.parting.specialize import is_fit

    chosen = _for_agents(repeated, gpu, spec.num_warps)
    if chosen is None or not has_agents(gpu):
        return None
    for choose in _ways(repeated, gpu, chosen):
        made = choose(function)
        clean_up(made)
        if gpu.has("wgmma"):
            read_lines(made)
        if is_fit(made, gpu):
            return made
    return None


def _ways(
    products: Sequence[DotOp | ScaledDotOp], gpu: Target, chosen: Callable[[FuncOp], FuncOp]
) -> list[Callable[[FuncOp], FuncOp]]:
    """Ways to choose layouts for agents, of which the first one is taken that fits."""
    if _feed_each_other(products, gpu):
        return [chosen, _step_by_step]
    if chosen is _by_one_group:
        return [chosen, partial(convert_function, whole_rows=True, share_columns=True)]
    if chosen is _by_warpgroups and _is_crowded(products[0], gpu):
        return [lambda function: _by_warpgroups(_by_two_groups(function)), chosen]
    side = read_to_registers(products[0], gpu) if chosen is _by_warpgroups else None
    return [chosen] if side is None else [partial(_by_registers, turns=side == "b"), chosen]


def _is_crowded(product: DotOp | ScaledDotOp, gpu: Target) -> bool:
    """Whether the loop of a lone product computes something of each, for which one warpgroup has no registers beside
    it, and which two can halve."""
    shape = shape_of(product.result.type)
    if not is_zero(product.c) or len(shape) != 2 or shape[0] % (2 * wgmma.ROWS):
        return False
    held = 2 * prod(shape) // (wgmma.GROUP_WARPS * gpu.warp_size)
    return held + OTHER_REGISTERS > gpu.registers_per_thread


def _feed_each_other(products: Sequence[DotOp | ScaledDotOp], gpu: Target) -> bool:
    """Whether products of one loop feed each other, into tensor memory: another order than attention's wants other
    layouts."""
    dots = [op for op in products if isinstance(op, DotOp)]
    return gpu.has("tcgen05") and len(dots) == len(products) and len(by_loop(dots)) == 1 and not are_fed(dots)


def _of_matrices(function: FuncOp, gpu: Target) -> FuncOp:
    """A copy of the function whose product of several matrices, or of a batch of 1, is one of each matrix, and one of
    few rows its transpose, where instructions into tensor memory may multiply those; else the function."""
    repeated = list(_repeated(function, gpu)) if gpu.has("tcgen05") else []
    if len(repeated) != 1 or not isinstance(repeated[0], DotOp):
        return function
    *batches, rows, columns = shape_of(repeated[0].result.type)
    few = rows < tcgen05.HALF_LANES and columns % tcgen05.HALF_LANES == 0
    if not batches and not few:
        return function
    copy = function.clone()
    (product,) = (op for op in _repeated(copy, gpu) if isinstance(op, DotOp))
    if batches and batches[0] > 1:
        in_single_batches(product)
        return copy
    product = without_batch(product)
    if few:
        transposed(product)
    return copy


def _with_rows(function: FuncOp, gpu: Target) -> FuncOp:
    """A copy of the function in which those of several products that have too few rows for warpgroups, and columns for
    them, are computed as their transposes, as far as they begin with zeros; the function where there are none."""

    def few(found: FuncOp) -> list[DotOp]:
        products = [op for op in _repeated(found, gpu) if isinstance(op, DotOp)]
        shapes = [shape_of(op.result.type) for op in products]
        if len(products) < 2 or not any(shape[-2] % wgmma.ROWS == 0 for shape in shapes):
            return []
        return [
            op
            for op, shape in zip(products, shapes)
            if len(shape) == 2 and shape[0] < wgmma.ROWS and shape[1] % wgmma.ROWS == 0 and is_zero(op.c)
        ]

    if not few(function):
        return function
    copy = function.clone()
    for product in few(copy):
        transpose_of_zeros(product)
    return copy


def _repeated(function: FuncOp, gpu: Target) -> Iterator[DotOp | ScaledDotOp]:
    """The products in loops; those with scale factors where asynchronous ones have them."""
    kinds = (DotOp, ScaledDotOp) if gpu.has("tcgen05") else (DotOp,)
    for op in ops_of(function, *kinds):
        if isinstance(op.parent_op(), scf.ForOp):
            yield op


def _for_agents(products: Sequence[DotOp | ScaledDotOp], gpu: Target, warps: int) -> Callable[[FuncOp], FuncOp] | None:
    """How layouts are chosen for products by agents; None where it costs little to see that they do not compute them.
    The layouts themselves say the rest."""
    if gpu.has("tcgen05"):
        if any(tensor_memory_atom(op, gpu) is None for op in products):
            return None
        dots = [op for op in products if isinstance(op, DotOp)]
        if len(dots) == len(products) and len(by_loop(dots)) == 1 and all(is_zero(op.c) for op in dots):
            return _computed_of_tensor_memory if all(map(are_fed, by_loop(dots))) else _step_by_step
        if len(products) == 1 or (len(dots) == len(products) and all(map(are_fed, by_loop(dots)))):
            loaded = all(tcgen05.are_loaded_by(shape_of(op.result.type), warps) for op in products)
            return _in_tensor_memory if loaded else None
        if len(dots) < len(products):
            return None
        if len(by_loop(dots)) > 1:
            return None
        rows = {shape_of(op.result.type)[-2] for op in products}
        by_rows = len(rows) == 1 and rows <= {*tcgen05.ROWS_OF_THREADS}
        return _chained_in_tensor_memory if by_rows else _step_by_step
    if not gpu.has("wgmma"):
        return convert_function if gpu.has("tma") else None
    if len(products) == 1 and len(shape := shape_of(products[0].result.type)) == 3 and shape[0] > 1:
        return _by_single_batches if shape[1] % wgmma.ROWS == 0 else None
    if len(products) == 1:
        fits = any(n % wgmma.ROWS == 0 for n in shape_of(products[0].result.type)[-2:])
        return _by_warpgroups if fits else None
    heights = [shape_of(op.result.type)[-2] for op in products]
    if any(n % wgmma.ROWS for n in heights):
        return None
    return (
        _by_one_group
        if min(heights) < warps // wgmma.GROUP_WARPS * wgmma.ROWS
        else partial(convert_function, whole_rows=True)
    )


def _by_one_group(function: FuncOp) -> FuncOp:
    """Layouts for products of one warpgroup, some of which have no rows for a second one."""
    copy, spec = function.clone(), function.kernel_spec
    assert spec is not None
    copy.properties["kernel_spec"] = KernelSpecAttr(
        spec.entry, wgmma.GROUP_WARPS, spec.num_ctas, spec.occupancy, spec.target
    )
    return convert_function(copy, whole_rows=True)


def _by_warpgroups(function: FuncOp) -> FuncOp:
    """Layouts for a product of warpgroups, which is one of matrices; its transpose, where it has too few rows."""
    (product,) = products_in_loops(function)
    shape = shape_of(product.result.type)
    turned = shape[-2] % wgmma.ROWS and not shape[-1] % wgmma.ROWS
    if len(shape) == 2 and not turned and (_part_shape(function, product) is None or not is_crowded(product)):
        return convert_function(function, whole_rows=True)
    copy = function.clone()
    (product,) = products_in_loops(copy)
    product = without_batch(product)
    product = (transposed(product) if turned else None) or product
    _cut_crowded(copy, product)
    return convert_function(copy, whole_rows=True)


def _by_registers(function: FuncOp, *, turns: bool) -> FuncOp:
    """Layouts for a product of warpgroups whose left operand threads read to registers, of the transpose if it
    `turns`."""
    copy = function.clone()
    (product,) = products_in_loops(copy)
    product = without_batch(product)
    product = (transposed(product) if turns else None) or product
    _cut_crowded(copy, product)
    return convert_function(copy, whole_rows=True, in_pairs=[product])


def _cut_crowded(function: FuncOp, product: DotOp) -> None:
    """Have what is behind the loop of a product done part by part, where there are other tiles of its size."""
    part = _part_shape(function, product)
    if part is not None:
        cut_result(product, part, only_crowded=True)


def _part_shape(function: FuncOp, product: DotOp) -> tuple[int, int] | None:
    """The part of a product's result that threads have registers for beside another one; None where that is all."""
    spec, shape = function.kernel_spec, tuple(shape_of(product.result.type))
    if spec is None or spec.target is None or len(shape) != 2:
        return None
    part = result_part_shape((shape[0], shape[1]), spec.num_warps * target(spec.target).warp_size)
    return part if part != shape else None


def _by_single_batches(function: FuncOp) -> FuncOp:
    """Layouts for the products of warpgroups that one of several matrices becomes."""
    copy = function.clone()
    (product,) = products_in_loops(copy)
    in_single_batches(product)
    return convert_function(copy, whole_rows=True)


def _in_tensor_memory(function: FuncOp) -> FuncOp:
    """Layouts for products into tensor memory; what is behind their loop goes part by part, if it can."""
    spec = function.kernel_spec
    assert spec is not None
    copy = function.clone()
    assert spec.target is not None
    products = list(_repeated(copy, target(spec.target)))
    start_with_zeros(op for op in products if isinstance(op, DotOp))
    for product in products:
        rows, columns = shape_of(product.result.type)[-2:]
        part = tcgen05.part_shape((rows, columns), spec.num_warps)
        if part != (rows, columns):
            cut_result(product, part)
    return convert_function(copy, in_tensor_memory=products)


def _computed_of_tensor_memory(function: FuncOp) -> FuncOp:
    """Layouts for products into tensor memory of which a loop computes something, by as many warps as that takes."""
    spec = function.kernel_spec
    assert spec is not None and spec.target is not None
    copy, gpu = function.clone(), target(spec.target)
    products = [op for op in _repeated(copy, gpu) if isinstance(op, DotOp)]
    warps = warps_of_results([shape_of(op.result.type) for op in products], spec, gpu) or spec.num_warps
    copy.properties["kernel_spec"] = KernelSpecAttr(spec.entry, warps, spec.num_ctas, spec.occupancy, spec.target)
    return convert_function(copy, in_tensor_memory=products)


def _step_by_step(function: FuncOp) -> FuncOp:
    """Layouts for products into tensor memory that feed each other in any order: as fragments."""
    copy, spec = function.clone(), function.kernel_spec
    assert spec is not None and spec.target is not None
    products = list(_repeated(copy, target(spec.target)))
    if not all(tcgen05.are_loaded_by(shape_of(op.result.type), spec.num_warps) for op in products):
        return convert_function(copy)
    return convert_function(copy, in_tensor_memory=products)


def _chained_in_tensor_memory(function: FuncOp) -> FuncOp:
    """Layouts for products into tensor memory of which one feeds another one: four warps, with a row to a thread, or to
    two; or eight for 256 rows."""
    spec = function.kernel_spec
    assert spec is not None
    copy = function.clone()
    products = products_in_loops(copy)
    warps = tcgen05.row_warps(shape_of(products[0].result.type)[-2])
    copy.properties["kernel_spec"] = KernelSpecAttr(spec.entry, warps, spec.num_ctas, spec.occupancy, spec.target)
    for product in products:
        rows, columns = shape_of(product.result.type)[-2:]
        cut_result(product, tcgen05.row_part_shape((rows, columns)))
    return convert_function(copy, in_tensor_memory=products, by_rows=True)
