# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensor maps are those that the reference's host objects write, and have the fields that ptxas changes."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Iterable
from pathlib import Path

import pytest

import libtile
import oracle
from libtile.backend.cubin import read_cubin
from libtile.targets.tensor_map import ELEMENTS, FIELDS, TiledMap, decode, encode
from oracle.host_objects import HostObject, require_host_code

pytestmark = pytest.mark.oracle

# The product makes the reference use tensor maps; it has none for a kernel that only copies.
KERNEL = """cuda_tile.module @m {{
  entry @k(%p: tile<ptr<{type}>>, {parameters}, %pa: tile<ptr<f16>>, %pc: tile<ptr<f32>>) {{
    %q = assume div_by<16>, %p : tile<ptr<{type}>>
{assumptions}
    %v = make_tensor_view %q, shape = [{sizes}], strides = [{strides}] : tile<i32> -> {tensor}
    %w = make_partition_view %v : {view}
    %x, %y, %z = get_tile_block_id : tile<i32>
    %qa = assume div_by<16>, %pa : tile<ptr<f16>>
    %qc = assume div_by<16>, %pc : tile<ptr<f32>>
    %va = make_tensor_view %qa, shape = [256, 256], strides = [256, 1] : tensor_view<256x256xf16, strides=[256,1]>
    %vc = make_tensor_view %qc, shape = [256, 256], strides = [256, 1] : tensor_view<256x256xf32, strides=[256,1]>
    %wa = make_partition_view %va : partition_view<tile=(64x64), tensor_view<256x256xf16, strides=[256,1]>>
    %wc = make_partition_view %vc : partition_view<tile=(64x64), tensor_view<256x256xf32, strides=[256,1]>>
    %a, %t0 = load_view_tko weak %wa[%x, %y]
      : partition_view<tile=(64x64), tensor_view<256x256xf16, strides=[256,1]>>, tile<i32> -> tile<64x64xf16>, token
    %none = constant <f32: 0.0> : tile<64x64xf32>
    %c = mmaf %a, %a, %none : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
    %t1 = store_view_tko weak %c, %wc[%x, %y] : tile<64x64xf32>,
      partition_view<tile=(64x64), tensor_view<256x256xf32, strides=[256,1]>>, tile<i32> -> token
    %d, %t2 = load_view_tko weak %w[{index}] : {view}, tile<i32> -> tile<{tile}x{type}>, token
    %e = {add} %d, %d : tile<{tile}x{type}>
    %t3 = store_view_tko weak %e, %w[{index}] token = %t2 : tile<{tile}x{type}>, {view}, tile<i32>, token -> token
    return
  }}
}}
"""


def kernel(type_: str, tile: tuple[int, ...]) -> str:
    """Loads and stores tiles of a tensor whose sizes and outer strides are parameters, multiples of 16."""
    rank, extents = len(tile), "x".join(map(str, tile))
    parameters = [f"%n{i}" for i in range(rank)] + [f"%s{i}" for i in range(rank - 1)]
    assumptions = "".join(
        f"    {p}b = assume bounded<0, ?>, {p} : tile<i32>\n    {p}a = assume div_by<16>, {p}b : tile<i32>\n"
        for p in parameters
    )
    tensor = f"tensor_view<{'?x' * rank}{type_}, strides=[{'?,' * (rank - 1)}1]>"
    return KERNEL.format(
        type=type_,
        parameters=", ".join(f"{p}: tile<i32>" for p in parameters),
        assumptions=assumptions,
        sizes=", ".join(f"{p}a" for p in parameters[:rank]),
        strides=", ".join([*(f"{p}a" for p in parameters[rank:]), "1"]),
        tensor=tensor,
        view=f"partition_view<tile=({extents}), {tensor}>",
        index=", ".join(["%x"] * rank),
        tile=extents,
        add="addi" if type_.startswith("i") else "addf",
    )


CASES = [
    # element type of the IR, tile, that of the map, boxes of the load and the store (from the innermost on)
    ("f16", (256,), "f16", [(256,)]),
    ("f16", (64, 64), "f16", [(64, 64)]),
    ("f16", (64, 8), "f16", [(8, 64)]),
    ("f32", (16, 32), "f32", [(32, 16)]),
    ("i8", (8, 8, 32), "u8", [(32, 8, 8)]),
    ("bf16", (2, 4, 8, 16), "bf16", [(16, 8, 4, 2)]),
    ("i32", (2, 2, 4, 4, 8), "u32", [(8, 4, 4, 2, 2)]),
    ("f64", (16, 16), "f64", [(16, 16)]),
    ("i64", (8, 8), "u64", [(8, 8)]),
    ("i16", (16, 16), "u16", [(16, 16)]),
]


@pytest.mark.parametrize("gpu_name", ["sm_90", pytest.param("sm_100", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("type_", "tile", "element", "boxes"), CASES)
def test_maps_of_all_ranks_and_types_are_those_of_the_reference(
    type_: str, tile: tuple[int, ...], element: str, boxes: list[tuple[int, ...]], gpu_name: str
) -> None:
    require_host_code()
    done = oracle.run_tileiras(libtile.write(libtile.parse(kernel(type_, tile)), "13.4"), gpu_name)
    assert done.cubin is not None, done.stderr
    host = HostObject(read_cubin(done.cubin).host_object)
    rank, size = len(tile), ELEMENTS[element].bits // 8
    rng = random.Random(f"{type_} {tile}")
    static = {
        encode(TiledMap(0x7A0000000000, "f16", (256, 256), (512,), (64, 64), swizzle="128B")),
        encode(TiledMap(0x7B0000000000, "f32", (256, 256), (1024,), (32, 64), swizzle="128B")),
    }
    for _ in range(100):
        address = rng.randrange(1, 1 << 44) * 16
        sizes = [rng.randrange(1, 1 << rng.randrange(1, 27)) * 16 for _ in range(rank)]
        strides = [rng.randrange(1, 1 << rng.randrange(1, 27)) * 16 for _ in range(rank - 1)]
        visible = struct.pack(f"<Q{2 * rank - 1}I", address, *sizes, *strides)
        visible = visible.ljust(-(-len(visible) // 8) * 8, b"\0") + struct.pack("<QQ", 0x7A0000000000, 0x7B0000000000)
        steps = tuple(stride * size for stride in reversed(strides))
        wanted = {encode(TiledMap(address, element, tuple(reversed(sizes)), steps, box)) for box in boxes}
        assert set(host.maps("k", visible, gpu_name)) == wanted | static


def same_maps(
    data: bytes, kernel: str, visible: Iterable[bytes], count: int, host: tuple[str, str] | None = None
) -> list[bytes]:
    """Our host object of a program makes the same maps, in the same places, as the reference's: in this process, or
    for a host on an emulated processor. The last ones that it made."""
    arch, system = host or ("x86_64", "linux")
    made = libtile.compile(data, gpu_name="sm_90", schedule="specialized", host=(arch, system))
    done = oracle.run_tileiras(data, "sm_90", f"--host-arch={arch}", f"--host-os={system}")
    assert done.cubin is not None, done.stderr
    own, reference = read_cubin(made.cubin), read_cubin(done.cubin)
    assert own.kernels[kernel].parameters == reference.kernels[kernel].parameters  # the visible ones
    objects = own.host_object, reference.host_object
    if host is None:
        require_host_code()
        ours, theirs = map(HostObject, objects)
    else:
        emulated = pytest.importorskip("oracle.emulated_hosts")
        ours, theirs = (emulated.EmulatedObject(data, *host) for data in objects)
    maps: list[bytes] = []
    for block in visible:
        maps = ours.maps(kernel, block, "sm_90", count)
        assert len(maps) == count
        assert [m[:64] for m in maps] == [m[:64] for m in theirs.maps(kernel, block, "sm_90", count)]
    return maps


HOSTS = [
    None, ("x86_64", "windows"), ("aarch64", "linux"),
    *(pytest.param(host, marks=pytest.mark.slow) for host in (("x86_64", "linux"), ("aarch64", "windows"))),
]  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
def test_host_objects_of_ours_fill_what_those_of_the_reference_fill(host: tuple[str, str] | None) -> None:
    """For the same arguments, in the same place, the same maps: of the loads, and of the store."""
    data = (Path(__file__).resolve().parents[2] / "examples" / "gemm.bc").read_bytes()
    rng = random.Random(0)
    blocks = []
    for _ in range(100 if host is None else 20):
        sizes = [(rng.randrange(1, 1 << rng.randrange(1, 31)), rng.randrange(1, 1 << 28)) for _ in range(3)]
        strides = [8 * rng.randrange(1, 1 << rng.randrange(1, 28)) for _ in range(3)]
        blocks.append(
            b"".join(
                struct.pack("<Q4I", rng.randrange(1, 1 << 44) * 16, m, n, stride, 1)
                for (m, n), stride in zip(sizes, strides)
            )
        )
    same_maps(data, "gemm", blocks, 3, host)


# A product of tiles of 128 rows, whose depth says how they are swizzled.
PRODUCT = """cuda_tile.module @m {{
  entry @k(%pa: tile<ptr<{t}>>, %pb: tile<ptr<{t}>>, %pc: tile<ptr<f32>>, %n: tile<i32>) {{
    %qa = assume div_by<16>, %pa : tile<ptr<{t}>>
    %qb = assume div_by<16>, %pb : tile<ptr<{t}>>
    %qc = assume div_by<16>, %pc : tile<ptr<f32>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %va = make_tensor_view %qa, shape = [512, 1024], strides = [1024, 1] : {view}
    %vb = make_tensor_view %qb, shape = [512, 1024], strides = [1024, 1] : {view}
    %vc = make_tensor_view %qc, shape = [512, 512], strides = [512, 1] : tensor_view<512x512xf32, strides=[512,1]>
    %wa = make_partition_view %va : partition_view<tile=(128x{k}), {view}>
    %wb = make_partition_view %vb : partition_view<tile=(128x{k}), {view}>
    %wc = make_partition_view %vc : partition_view<tile=(128x128), tensor_view<512x512xf32, strides=[512,1]>>
    %zero = constant <f32: 0.0> : tile<128x128xf32>
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %r = for %i in (%c0 to %n, step %c1) : tile<i32> iter_values(%acc = %zero) -> (tile<128x128xf32>) {{
      %a, %t0 = load_view_tko weak %wa[%x, %i]
        : partition_view<tile=(128x{k}), {view}>, tile<i32> -> tile<128x{k}x{t}>, token
      %b, %t1 = load_view_tko weak %wb[%y, %i]
        : partition_view<tile=(128x{k}), {view}>, tile<i32> -> tile<128x{k}x{t}>, token
      %bt = permute %b [1, 0] : tile<128x{k}x{t}> -> tile<{k}x128x{t}>
      %d = mmaf %a, %bt, %acc : tile<128x{k}x{t}>, tile<{k}x128x{t}>, tile<128x128xf32>
      continue %d : tile<128x128xf32>
    }}
    %t2 = store_view_tko weak %r, %wc[%x, %y] : tile<128x128xf32>,
      partition_view<tile=(128x128), tensor_view<512x512xf32, strides=[512,1]>>, tile<i32> -> token
    return
  }}
}}
"""
DEPTHS = {("f16", 16): "32B", ("f16", 32): "64B", ("f16", 64): "128B", ("bf16", 32): "64B", ("f8E4M3FN", 32): "32B",
          ("f8E5M2", 64): "64B", ("f8E4M3FN", 128): "128B"}  # fmt: skip


@pytest.mark.parametrize(
    ("type_", "depth", "swizzle"),
    [
        pytest.param(*key, swizzle, marks=() if key in (("f16", 16), ("f16", 32)) else pytest.mark.slow)
        for key, swizzle in DEPTHS.items()
    ],
)
def test_swizzles_are_those_of_the_reference(type_: str, depth: int, swizzle: str) -> None:
    text = PRODUCT.format(t=type_, k=depth, view=f"tensor_view<512x1024x{type_}, strides=[1024,1]>")
    data = libtile.write(libtile.parse(text), "13.4")
    rng = random.Random(depth)
    blocks = [struct.pack("<3QI", *(rng.randrange(1, 1 << 44) * 16 for _ in range(3)), 4) for _ in range(20)]
    assert [decode(raw).swizzle for raw in same_maps(data, "k", blocks, 3)] == [swizzle, swizzle, "128B"]


SAMPLE = ("mma_tf32_tf32_f32", "mma_i8_i8_i32", "gemm_bf16", "attention", "attention_causal")


def _kernels() -> list[object]:
    corpus = pytest.importorskip("kernels.corpus", reason="the frontend is not installed (pip install cuda-tile)")
    return [
        name if name in SAMPLE else pytest.param(name, marks=pytest.mark.slow)
        for name, kernel in corpus.KERNELS.items()
        if kernel.gpu_code == "sm_90"
    ]


@pytest.mark.parametrize("name", _kernels())
def test_every_map_of_a_kernel_is_decoded_and_encoded_again(name: str) -> None:
    from kernels import corpus

    require_host_code()
    entry = corpus.KERNELS[name]
    version = max(version for version in entry.versions if version <= "13.4")
    done = oracle.run_tileiras(corpus.export(entry, version, "sm_90"), "sm_90")
    assert done.cubin is not None, done.stderr
    cubin = read_cubin(done.cubin)
    host = HostObject(cubin.host_object)
    end = max((p.offset + p.size for p in cubin.kernels[name].parameters), default=0)
    rng = random.Random(name)
    maps = [raw for _ in range(10) for raw in host.maps(name, rng.randbytes(end), "sm_90")]
    assert [encode(decode(raw)) for raw in maps] == maps
    assert maps or name not in SAMPLE


# -- tensormap.replace, of which ptxas makes loads, masks and stores

REPLACE = """.version 8.8
.target {target}
.address_size 64
"""
ENTRY = """.visible .entry {name}(.param .u64 a, .param .u64 b, .param .u32 c) {{
  .reg .b64 %rd<3>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u32 %r1, [c];
  tensormap.replace.tile.{field}.shared::cta.b1024.{width} [%rd1]{value};
  ret;
}}
"""


def replaced(target: str, wanted: dict[str, tuple[str, str]], folder: Path) -> dict[str, tuple[set[int], int]]:
    """For each of the replacements (field, operands): byte offsets of the words stored, the union of the masks."""
    text = REPLACE.format(target=target)
    for name, (field, value) in wanted.items():
        width = "b64" if field in ("global_address", "global_stride") else "b32"
        text += ENTRY.format(name=name, field=field, value=value, width=width)
    (folder / "t.ptx").write_text(text)
    done = oracle.run_tool("ptxas", f"-arch={target}", folder / "t.ptx", "-o", folder / "t.cubin")
    assert done.rc == 0, done.stderr
    listing = oracle.run_tool("nvdisasm", "-c", folder / "t.cubin").stdout
    found = {}
    for section in listing.split(".section\t.text.")[1:]:
        stored: set[int] = set()
        for wide, offset in re.findall(r"STS(\.64)? \[\w+(?:\+(0x[0-9a-f]+))?\]", section):
            first = int(offset or "0", 16)
            stored |= {first, first + 4} if wide else {first}
        mask = 0
        for immediate in re.findall(r"LOP3\.LUT \w+, \w+, (0x[0-9a-f]+), ", section):
            mask |= int(immediate, 16)
        found[section.split(",")[0].strip()] = (stored, mask)
    return found


def bits(*names: str) -> tuple[set[int], int]:
    """What `replaced` says of fields: whole words have no mask."""
    words, mask = set(), 0
    for name in names:
        field = FIELDS[name]
        words.add(field.at // 32 * 4)
        if field.width < 32:
            mask |= (1 << field.width) - 1 << field.at % 32
    return words, mask


def test_fields_are_those_that_ptxas_changes(tmp_path: Path) -> None:
    cases: dict[str, tuple[str, str]] = {"rank": ("rank", ", %r1")}
    wanted = {"rank": bits("rank")}
    for i in range(5):
        for field, name in (("box_dim", "box"), ("global_dim", "size"), ("element_stride", "element_stride")):
            cases[f"{field}{i}"], wanted[f"{field}{i}"] = (field, f", {i}, %r1"), bits(f"{name}{i}")
    for i in range(4):
        cases[f"stride{i}"] = ("global_stride", f", {i}, %rd2")
        wanted[f"stride{i}"] = bits(f"stride{i}", f"stride_high{i}")
    for field, names in (
        ("elemtype", ("element",)),
        ("interleave_layout", ("interleave",)),
        ("swizzle_mode", ("swizzle", "swizzle_96B")),
        ("swizzle_atomicity", ("atomicity",)),
        ("fill_mode", ("fill_nan",)),
    ):
        cases[field], wanted[field] = (field, ", 0"), bits(*names)
    cases["address"], wanted["address"] = ("global_address", ", %rd2"), ({0, 4, 8}, bits("large")[1])
    assert replaced("sm_103a", cases, tmp_path) == wanted


def test_numbers_of_element_types_are_those_that_ptxas_writes(tmp_path: Path) -> None:
    names = list(ELEMENTS)
    cases = {f"t{i}": ("elemtype", f", {i}") for i in range(1, len(names))}
    wanted = {}
    for i in range(1, len(names)):
        element = ELEMENTS[names[i]]
        word = FIELDS["element"].put(element.number) | FIELDS["tf32"].put(int(element.rounded))
        wanted[f"t{i}"] = ({8}, word >> 64)
    assert replaced("sm_103a", cases, tmp_path) == wanted
