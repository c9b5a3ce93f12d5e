# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Views, accesses through them, atomic reductions and multimem accesses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdsl.ir import Attribute

from dialects.building import TOKEN, Body, tile, view
from dialects.verify_cases.case import Cases, Fill
from libtile.dialects.cuda_tile.types import (
    DYNAMIC,
    GatherScatterViewType,
    PartitionViewType,
    StridedViewType,
    TensorViewType,
    TileViewType,
)

CASES = Cases()
I32, I64 = tile("i32"), tile("i64")

WEAK = {"memory_ordering_semantics": "weak"}
RELAXED = {"memory_ordering_semantics": "relaxed", "memory_scope": "device"}


@dataclass(frozen=True)
class Access:
    """An access to a tile of a 64x64 view; `kind` makes the view that is accessed."""

    op: str
    attributes: Any
    kind: str = "partition"
    element: str = "f32"
    ptr_attr: str | None = None
    strides: Sequence[int] = (64, 1)
    shape: Sequence[int] = (4, 4)
    sparse: int = 0
    padding: str | None = None
    indices: Sequence[Any] | None = None
    tile: Any = None

    def view(self, tensor: TensorViewType) -> TileViewType:
        if self.kind == "partition":
            return PartitionViewType(self.shape, tensor, (0, 1), self.padding)
        if self.kind == "strided":
            return StridedViewType(self.shape, (3, 3), tensor, (0, 1), self.padding)
        return GatherScatterViewType(self.shape, tensor, self.sparse, self.padding)

    def fill(self, b: Body) -> None:
        tensor = view(self.element, [64, 64], self.strides, self.ptr_attr)
        type_ = self.view(tensor)
        base = b.value("make_tensor_view", {"base": b.args[0]}, tensor)
        made = b.value(f"make_{type_.mnemonic}", {"tensor_view": base}, type_)
        accessed = self.tile or type_.tile_type
        operands: dict[str, Any] = {"view": made, "index": [b.constant(t) for t in self.index_types()]}
        results: list[Attribute] = [TOKEN]
        if "load" in self.op:
            results.insert(0, accessed)
        else:
            operands["value" if self.op.startswith("atomic") else "tile"] = b.constant(accessed)
        b.op(self.op, operands, results, attributes=self.attributes)

    def index_types(self) -> Sequence[Any]:
        if self.indices is not None:
            return self.indices
        if self.kind == "gather_scatter":
            return [tile("i32", self.shape[d]) if d == self.sparse else I32 for d in range(2)]
        return [I32, I32]

    def parameter(self) -> Attribute:
        return tile(f"ptr<{self.element},{self.ptr_attr}>" if self.ptr_attr else f"ptr<{self.element}>")


def good(name: str, access: Access, **changes: Any) -> None:
    access = replace(access, **changes)
    CASES.good(f"{access.op}-{name}", access.fill, access.parameter())


def bad(name: str, message: str, access: Access, oracle: str = "same", **changes: Any) -> None:
    access = replace(access, **changes)
    CASES.bad(f"{access.op}-{name}", f"{access.op}: {message}", access.fill, access.parameter(), oracle=oracle)


LOAD, STORE = Access("load_view_tko", WEAK), Access("store_view_tko", WEAK)
REDUCE = Access("atomic_red_view_tko", RELAXED | {"mode": "addf"})
MULTICAST = {"ptr_attr": "multicast"}
M_LOAD = Access("multimem_load_reduce_view_tko", RELAXED | {"reduction": "add"}, **MULTICAST)
M_REDUCE = Access("multimem_reduce_view_tko", RELAXED | {"reduction": "add"}, **MULTICAST)
M_STORE = Access("multimem_store_view_tko", WEAK, **MULTICAST)

# -- indices and tiles, which all but the atomic reduction check alike ------------------------------------------------

for access in (LOAD, STORE, M_LOAD, M_REDUCE, M_STORE):
    good("plain", access)
    good("index-i64", access, indices=[I64, I64])
    good("inbounds", access, attributes=access.attributes | {"inbounds": [True, False]})
    bad("count", "expected 2 index operands (based on view type), got 1", access, indices=[I32])
    bad(
        "tile",
        "expected tile type to be '!cuda_tile.tile<4x4xf32>' (based on view type), got '!cuda_tile.tile<8xf32>'",
        access,
        tile=tile("f32", 8),
    )
    bad(
        "mixed",
        "expected index type 1 to be the same as other index types ('!cuda_tile.tile<i32>'), "
        "got '!cuda_tile.tile<i64>'",
        access,
        indices=[I32, I64],
    )
    bad(
        "vector",
        "expected index type to be a scalar tile, got '!cuda_tile.tile<1xi32>'",
        access,
        indices=[I32, tile("i32", 1)],
    )
    bad(
        "inbounds-count",
        "inbounds size (1) must match the number of index dimensions (2)",
        access,
        attributes=access.attributes | {"inbounds": [True]},
    )

for access in (LOAD, STORE):
    good("unicast", access, ptr_attr="unicast")
    bad("multicast", "multicast ptr_attr is not allowed", access, ptr_attr="multicast")
    good("strided", access, kind="strided")
    good("gather", access, kind="gather_scatter")
    bad(
        "gather-size",
        "expected gather/scatter index size (2) to match tile shape at gather/scatter dimension 0 (4)",
        access,
        kind="gather_scatter",
        indices=[tile("i32", 2), I32],
    )
    bad(
        "gather-scalar",
        "expected index at sparse_dim position 0 to be a 1D tensor for GatherScatterView, got rank 0",
        access,
        kind="gather_scatter",
        indices=[I32, I32],
    )
    bad(
        "gather-dense",
        "expected index 1 to be a scalar tile for GatherScatterView",
        access,
        kind="gather_scatter",
        indices=[tile("i32", 4), tile("i32", 4)],
    )
    good("f4", access, element="f4E2M1FN")
    for strides, count in (((64, 2), 0), ((1, 1), 2)):
        bad(
            f"f4-{count}",
            "an f4 view access requires exactly one statically encoded unit stride to identify the packing dimension; "
            f"got {count} in '!cuda_tile.tensor_view<64x64xf4E2M1FN, strides=[{strides[0]},{strides[1]}]>'",
            access,
            element="f4E2M1FN",
            strides=strides,
        )
    bad(
        "f4-sparse",
        "an f4 gather/scatter view cannot use packing dimension 1 as its sparse dimension",
        access,
        element="f4E2M1FN",
        kind="gather_scatter",
        sparse=1,
    )

bad(
    "release",
    "expect one of: weak, relaxed, or acquire, but got: release",
    LOAD,
    attributes={"memory_ordering_semantics": "release", "memory_scope": "sys"},
)
bad("scope", "memory scope is required for relaxed store", STORE, attributes={"memory_ordering_semantics": "relaxed"})

# -- atomic reductions ------------------------------------------------------------------------------------------------

good("plain", REDUCE)
good("strided", REDUCE, kind="strided")
good("padded", REDUCE, padding="zero")
good("mixed", REDUCE, indices=[I32, I64])
good("integer", REDUCE, element="i32", attributes=RELAXED | {"mode": "umax"})
bad("gather", "gather_scatter_view is not supported; use partition_view instead", REDUCE, kind="gather_scatter")
bad("element", "view element type ('f32') must match value element type ('f16')", REDUCE, tile=tile("f16", 4, 4))
bad(
    "shape",
    "view tile shape 4, 4 must match value shape 2, 2 for element-wise atomic operations",
    REDUCE,
    tile=tile("f32", 2, 2),
)
bad("xchg", "atomic_red_view_tko op cannot use xchg operation", REDUCE, attributes=RELAXED | {"mode": "xchg"})
bad("mode", "'add' works only with integers i32 and i64", REDUCE, attributes=RELAXED | {"mode": "add"})
bad(
    "acquire",
    "only 'relaxed' memory ordering is supported for view-based atomic reductions",
    REDUCE,
    attributes=REDUCE.attributes | {"memory_ordering_semantics": "acquire"},
)
bad(
    "sys",
    "memory scope 'sys' is not supported for view-based atomic reductions; "
    "use 'tl_blk' or 'device' for TMA compatibility",
    REDUCE,
    attributes=REDUCE.attributes | {"memory_scope": "sys"},
)
bad("count", "expected 2 index operand(s) for view with tile rank 2, got 1", REDUCE, indices=[I32])
bad(
    "vector",
    "index operand 1 must be a scalar tile (rank 0), got shape 2",
    REDUCE,
    indices=[I32, tile("i32", 2)],
)
bad(
    "inbounds",
    "inbounds size (1) must match the number of index dimensions (2)",
    REDUCE,
    attributes=REDUCE.attributes | {"inbounds": [True]},
)
bad("multicast", "multicast ptr_attr is not allowed", REDUCE, **MULTICAST)

# -- multimem ---------------------------------------------------------------------------------------------------------

for access in (M_LOAD, M_REDUCE, M_STORE):
    bad("no-class", "expected a multicast pointer, but got none", access, ptr_attr=None)
    bad("unicast", "expected a multicast pointer, but got unicast", access, ptr_attr="unicast")
    bad(
        "strided",
        "multimem view operations support only partition_view; got '!cuda_tile.strided_view<tile=(4x4), "
        "traversal_strides=[3,3], tensor_view<64x64xf32, strides=[64,1], #cuda_tile.ptr_attr<multicast>>>'",
        access,
        kind="strided",
    )
    for element in ("f16", "bf16", "f32", "f64", "i32", "i64"):
        good(element, access, element=element)
    for element in ("i8", "i16"):
        bad(
            element,
            f"multimem requires 32- or 64-bit integer/index element types; got {element[1:]} bits",
            access,
            element=element,
        )
    bad(
        "f8",
        "multimem supports only f16, bf16, f32, and f64 floating-point element types",
        access,
        element="f8E5M2",
    )
    bad(
        "size",
        "multimem op requires tile total size to be a multiple of 4 bytes for float element types; "
        "got 1 element(s) of 16 bits (total 16 bits)",
        access,
        element="f16",
        shape=(1, 1),
    )
    bad(
        "stride",
        "f16/bf16 multimem views must have exactly one element stride statically known to equal 1; got 0",
        access,
        element="bf16",
        strides=(64, 2),
    )
    good("f32-stride", access, strides=(64, 2))

INTEGER_ONLY = "and/or/xor/umin/umax reductions require integer element types"
for access in (M_LOAD, M_REDUCE):
    for reduction in ("add", "min", "max", "and", "or", "xor", "umin", "umax"):
        good(f"i32-{reduction}", access, element="i32", attributes=RELAXED | {"reduction": reduction})
    for reduction in ("and", "or", "xor", "umin", "umax"):
        bad(f"f32-{reduction}", INTEGER_ONLY, access, attributes=RELAXED | {"reduction": reduction})
for reduction in ("min", "max"):
    attributes = RELAXED | {"reduction": reduction}
    good(f"f16-{reduction}", M_LOAD, element="f16", attributes=attributes)
    bad(f"f32-{reduction}", "min/max supports f16 and bf16 float types only; got 'f32'", M_LOAD, attributes=attributes)
    message = "supports only add for floating-point element types"
    bad(f"f16-{reduction}", message, M_REDUCE, element="f16", attributes=attributes)
for ordering in ("relaxed", "release"):
    good(ordering, M_REDUCE, attributes=M_REDUCE.attributes | {"memory_ordering_semantics": ordering})
for ordering in ("weak", "acquire", "acq_rel"):
    bad(
        ordering,
        "memory ordering semantics must be one of: relaxed, release",
        M_REDUCE,
        attributes=M_REDUCE.attributes | {"memory_ordering_semantics": ordering},
    )
bad(
    "acq_rel",
    "expect one of: weak, relaxed, or acquire, but got: acq_rel",
    M_LOAD,
    attributes=M_LOAD.attributes | {"memory_ordering_semantics": "acq_rel"},
)
bad("scope", "weak store must not have memory scope", M_STORE, attributes=WEAK | {"memory_scope": "sys"})

# -- making views -----------------------------------------------------------------------------------------------------


def tensor(type_: TensorViewType, shape: Sequence[Any] = (), strides: Sequence[Any] = ()) -> Fill:
    return lambda b: b.op(
        "make_tensor_view",
        {
            "base": b.args[0],
            "dynamicShape": [b.constant(t, 4) for t in shape],
            "dynamicStrides": [b.constant(t, 4) for t in strides],
        },
        [type_],
    )


POINTER = tile("ptr<f32>")
DYNAMIC_VIEW = view("f32", [DYNAMIC, DYNAMIC], [DYNAMIC, 1])
CASES.good("make_tensor_view", tensor(DYNAMIC_VIEW, [I32, I32], [I32]), POINTER)
CASES.bad(
    "make_tensor_view-pointee",
    "make_tensor_view: expected pointer to 'f64' to build tensor_view of this type, got 'f32'",
    tensor(view("f64", [4], [1])),
    POINTER,
)
CASES.bad(
    "make_tensor_view-shape",
    "make_tensor_view: expected 2 dynamic shape operands, got 1",
    tensor(DYNAMIC_VIEW, [I32], [I32]),
    POINTER,
)
CASES.bad(
    "make_tensor_view-strides",
    "make_tensor_view: expected 1 dynamic stride operands, got 0",
    tensor(DYNAMIC_VIEW, [I32, I32]),
    POINTER,
)
CASES.bad(
    "make_tensor_view-shape-type",
    "make_tensor_view: expected dynamic shape index 1 to be of the same type as the other dynamic values "
    "('!cuda_tile.tile<i32>'), got '!cuda_tile.tile<i64>'",
    tensor(DYNAMIC_VIEW, [I32, I64], [I32]),
    POINTER,
)
CASES.bad(
    "make_tensor_view-stride-type",
    "make_tensor_view: expected dynamic stride index 0 to be of the same type as the other dynamic values "
    "('!cuda_tile.tile<i32>'), got '!cuda_tile.tile<i64>'",
    tensor(DYNAMIC_VIEW, [I32, I32], [I64]),
    POINTER,
)
CLASSES = (None, "none", "unicast", "multicast")
for base in CLASSES:
    for result in CLASSES:
        parameter = tile(f"ptr<f32,{base}>" if base else "ptr<f32>")
        fill = tensor(view("f32", [4], [1], result))
        spelled = [f"#cuda_tile.ptr_attr<{c}>" for c in (base, result)]
        name = f"make_tensor_view-{base}-{result}"
        if base == result:
            CASES.good(name, fill, parameter)
        elif result is None:
            message = f"make_tensor_view: tensor_view must preserve ptr_attr from base pointer ({spelled[0]})"
            CASES.bad(name, message, fill, parameter)
        elif base is None:
            message = "make_tensor_view: pointer base without ptr_attr cannot produce tensor_view with ptr_attr"
            CASES.bad(name, message, fill, parameter)
        else:
            message = (
                f"make_tensor_view: ptr_attr mismatch between base pointer ({spelled[0]}) "
                f"and result tensor_view ({spelled[1]})"
            )
            CASES.bad(name, message, fill, parameter)


def other_view(make: Callable[[TensorViewType], TileViewType]) -> Fill:
    """A tile view of another tensor view than the operand."""
    source, other = view("f32", [64, 64], [64, 1]), view("f32", [32, 32], [32, 1])

    def fill(b: Body) -> None:
        base = b.value("make_tensor_view", {"base": b.args[0]}, source)
        type_ = make(other)
        b.op(f"make_{type_.mnemonic}", {"tensor_view": base}, [type_])

    return fill


for make in (
    lambda t: PartitionViewType((4, 4), t, (0, 1)),
    lambda t: StridedViewType((4, 4), (4, 4), t, (0, 1)),
    lambda t: GatherScatterViewType((4, 4), t, 0),
):
    mnemonic = make(view("f32", [32, 32], [32, 1])).mnemonic
    CASES.bad(
        f"make_{mnemonic}-other",
        f"make_{mnemonic}: expected the type of the provided tensor_view value "
        "('!cuda_tile.tensor_view<64x64xf32, strides=[64,1]>') to be the same as the view's tensor_view type "
        "('!cuda_tile.tensor_view<32x32xf32, strides=[32,1]>')",
        other_view(make),
        POINTER,
    )


def shape_of(count: int, of_view: bool) -> Fill:
    def fill(b: Body) -> None:
        source = b.value("make_tensor_view", {"base": b.args[0]}, view("f32", [64, 64], [64, 1]))
        if of_view:
            source = b.value(
                "make_partition_view", {"tensor_view": source}, PartitionViewType((4, 4), source.type, (0, 1))
            )
        b.op("get_index_space_shape" if of_view else "get_tensor_shape", {"src": source}, [I32] * count)

    return fill


for of_view, name, what in (
    (False, "get_tensor_shape", "tensor rank"), (True, "get_index_space_shape", "view index space rank")
):  # fmt: skip
    CASES.good(name, shape_of(2, of_view), POINTER)
    for count in (1, 3):
        message = f"{name}: expected 2 results due to {what}, but got {count}"
        CASES.bad(f"{name}-{count}", message, shape_of(count, of_view), POINTER)
