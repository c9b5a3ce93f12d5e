# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How the loops of a kernel with products are parted into agents: which form each has, or why it stays as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.ir import Operation

from libtile.dialects import scf
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.async_products import AsyncDotOp
from libtile.dialects.nv_tileas.pipeline import AgentSwitchOp
from libtile.dialects.nv_tileas.products import DotOp, ScaledDotOp
from libtile.ir.places import ops_around, ops_in, ops_of
from libtile.lowering.discardable import NOT_SPECIALIZED, ROTATED
from libtile.lowering.product_reasons import explain_asynchronous
from libtile.lowering.tileas.agents.fed_steps import NotSpecialized
from libtile.lowering.tileas.agents.step_chains import StepChain
from libtile.lowering.tileas.copies.tma_operands import Unfit
from libtile.lowering.tileas.mma_sync.fed_kernels import FedKernel
from libtile.lowering.tileas.parting.specialize_product import ProductLoop
from libtile.lowering.tileas.pipelines.schedule import is_zero
from libtile.lowering.tileas.products.product_forms import are_fed, by_loop
from libtile.lowering.tileas.tensor_memory.tensor_chains import TensorChain
from libtile.lowering.tileas.tensor_memory.tensor_phases import Phases
from libtile.lowering.tileas.tensor_memory.tensor_step_chains import TensorStepChain
from libtile.lowering.tileas.tensor_memory.tensor_steps import TensorSteps
from libtile.lowering.tileas.wgmma.descriptors import rematerialize_descriptors
from libtile.lowering.tileas.wgmma.specialize_chains import Chain
from libtile.lowering.tileas.wgmma.warp_phases import WarpPhases
from libtile.lowering.tileas.wgmma.warp_sums import WarpSums
from libtile.lowering.tileas.wgmma.wgmma_step_chains import WgmmaStepChain
from libtile.targets import Target

Product = ProductLoop | Chain | StepChain | Phases | TensorSteps
"""How a loop with one product is parted."""


def _reads_shared_memory(gpu: Target) -> bool:
    """Whether a target's widest products read shared memory, and are waited for."""
    return gpu.has("wgmma") or gpu.has("tcgen05")


def specialize(function: FuncOp, gpu: Target, most: int, take_turns: bool, run_ahead: bool, in_parts: bool) -> bool:
    """Part one kernel's agents, if it can be; returns whether it was. Otherwise its products say why not."""
    found = None
    if any(isinstance(op, AgentSwitchOp) for op in ops_in(function.body.block)):
        return False  # what agents do is decided
    for product, planned in _plans(function, gpu, most, in_parts):
        if isinstance(planned, Unfit):
            product.attributes[NOT_SPECIALIZED] = StringAttr(str(planned))
        else:
            found = planned
    if isinstance(found, Chain):
        found.take_turns, found.run_ahead = take_turns, run_ahead
    if found is not None:
        found.make()
        if not isinstance(found, ProductLoop):
            _rotate_chains(function)
        rematerialize_descriptors(function)
        explain_asynchronous(function, gpu)
    return found is not None


def _rotate_chains(function: FuncOp) -> None:
    """Have loops with several asynchronous products ask for another turn behind each one. ptxas turns others around by
    itself, and orders what is in them otherwise: gradients of attention took 6 and 7% more on an H100, while attention
    took the same."""
    for loop, count in Counter(map(_loop_around, ops_of(function, AsyncDotOp))).items():
        if loop is not None and count > 1:
            loop.attributes[ROTATED] = UnitAttr()


def _loop_around(op: Operation) -> scf.ForOp | None:
    return next((around for around in ops_around(op) if isinstance(around, scf.ForOp)), None)


def is_fit(function: FuncOp, gpu: Target, most: int) -> bool:
    """Whether `specialize` would part the agents of a kernel, which stays as it is."""
    return any(not isinstance(planned, Unfit) for _, planned in _plans(function, gpu, most))


def _plans(
    function: FuncOp, gpu: Target, most: int, in_parts: bool = True
) -> Iterator[
    tuple[
        DotOp | ScaledDotOp,
        ProductLoop | Chain | StepChain | Phases | WarpPhases | TensorSteps | WarpSums | FedKernel | Unfit,
    ]
]:
    """For each product of a kernel how its loop is parted, or why it is not."""
    kinds = (DotOp, ScaledDotOp) if gpu.has("tcgen05") else (DotOp,)
    products = ops_of(function, *kinds)
    if not _reads_shared_memory(gpu):
        scaled = ops_of(function, DotOp, ScaledDotOp)
        fed = _fed_loop(function, gpu, most) if scaled else None
        for op in scaled:
            if fed is not None:
                yield op, fed
        return
    repeated = [op for op in products if isinstance(op.parent_op(), scf.ForOp)]
    if len(repeated) > 1 and any(isinstance(op, ScaledDotOp) for op in repeated):
        for product in products:
            yield product, Unfit("it is not the kernel's only product in a loop, and one has scale factors")
        return
    dots = [op for op in repeated if isinstance(op, DotOp)]
    several = _several(function, gpu, dots, most) if len(dots) > 1 else None
    for product in products:
        try:
            if product not in repeated:
                raise Unfit(_place(product))
            if isinstance(several, NotSpecialized) and several.product is not product:
                raise Unfit("another product of its loop does not fit a producer and consumers")
            yield product, _alone(function, gpu, product, most, in_parts) if several is None else several
        except Unfit as reason:
            yield product, reason


def _alone(function: FuncOp, gpu: Target, product: DotOp | ScaledDotOp, most: int, in_parts: bool) -> Product:
    """How a loop with one product is parted: one that adds it up, or one that computes something of each product."""
    try:
        return ProductLoop(function, gpu, product, most, in_parts)
    except Unfit as reason:
        if isinstance(product, ScaledDotOp) or product.parent_op() is None:
            raise
        for form in (Phases, TensorSteps) if gpu.has("tcgen05") else (Chain,):
            try:
                return form(function, gpu, [product], most)
            except Unfit as other:
                last = other
        try:
            return (TensorStepChain if gpu.has("tcgen05") else WgmmaStepChain)(function, gpu, [product], most)
        except Unfit:
            pass  # the reasons of narrower forms say more
        raise (last if gpu.has("tcgen05") and is_zero(product.c) else reason) from None


def _fed_loop(function: FuncOp, gpu: Target, most: int) -> FedKernel | Unfit:
    """How a loop is parted whose products read registers, or why it is not: tiles are copied by TMA, or else by
    threads."""
    reasons = []
    for by_threads in (False, True) if gpu.has("tma") else (True,):
        try:
            return FedKernel(function, gpu, most, by_threads)
        except Unfit as reason:
            reasons.append(reason)
    return reasons[0]


def _several(
    function: FuncOp, gpu: Target, products: list[DotOp], most: int
) -> Chain | StepChain | Phases | WarpPhases | TensorSteps | WarpSums | Unfit:
    """How loops with several products are parted, or why they are not."""
    if not gpu.has("tcgen05") and are_fed(products):
        try:
            return WarpSums(function, gpu, products, most)
        except Unfit:
            pass  # a chain waits for each product, and may have what these sums have not
    try:
        loops = by_loop(products)
        if not gpu.has("tcgen05") and len(loops) > 1 and all(map(are_fed, loops)):
            return WarpPhases(function, gpu, products, most)
        if not gpu.has("tcgen05"):
            return _chain(function, gpu, products, most)
        if len(loops) == 1 and not are_fed(products):
            return _tensor_chain(function, gpu, products, most)
        if not all(map(are_fed, loops)):
            raise Unfit("the kernel has products in several loops, and in one of them a product feeds another one")
        if len(loops) == 1 and all(is_zero(product.c) for product in products):
            return TensorSteps(function, gpu, products, most)
        return Phases(function, gpu, products, most)
    except Unfit as reason:
        return reason


def _tensor_chain(function: FuncOp, gpu: Target, products: list[DotOp], most: int) -> TensorChain | TensorStepChain:
    """As `_chain`, where results lie in tensor memory."""
    try:
        return TensorChain(function, gpu, products, most)
    except Unfit as reason:
        try:
            return TensorStepChain(function, gpu, products, most)
        except Unfit:
            raise reason from None


def _chain(function: FuncOp, gpu: Target, products: list[DotOp], most: int) -> Chain | WgmmaStepChain:
    """How a loop with products that feed each other is parted: turned, if it can be, or step by step."""
    try:
        return Chain(function, gpu, products, most)
    except Unfit as reason:
        try:
            return WgmmaStepChain(function, gpu, products, most)
        except Unfit:
            raise reason from None


def _place(product: DotOp | ScaledDotOp) -> str:
    """Where a product is whose steps are not those of a loop that counts."""
    parent = product.parent_op()
    while isinstance(parent, scf.IfOp):
        parent = parent.parent_op()
    if not isinstance(parent, scf.ForOp | scf.WhileOp):
        return "it is in no loop"
    return "it is computed under a condition" if parent is not product.parent_op() else "its loop does not count"
