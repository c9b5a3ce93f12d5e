# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The targets' data against ptxas: it assembles for a target exactly what the data says the target has."""

import re
import subprocess

import pytest

from libtile.backend.cubin import read_cubin
from libtile.backend.ptx import PTX_VERSION
from libtile.backend.ptxas import assemble
from libtile.targets import UnknownTargetError, target, targets
from oracle import require_tool, sass
from patience import PATIENCE

PROBES = {
    "cp_async": "cp.async.ca.shared.global [r0], [d0], 16;",
    "ldmatrix": "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {r0}, [r1];",
    "ldmatrix_bytes": "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {r0, r1}, [r2];",
    "mbarrier": "mbarrier.init.shared.b64 [r0], 1;",
    "redux_integer": "redux.sync.add.s32 r0, r1, 0xffffffff;",
    "fma_bf16": "fma.rn.bf16 h0, h1, h1, h1;",
    "cvt_tf32": "cvt.rna.tf32.f32 r0, f0;",
    "cvt_tf32_rn": "cvt.rn.tf32.f32 r0, f0; cvt.rz.tf32.f32 r1, f0;",
    "cvt_fp8": "cvt.rn.satfinite.e4m3x2.f32 h0, f0, f1;",
    "add_bf16": "add.rn.bf16 h0, h1, h1;",
    "tanh_bf16": "tanh.approx.bf16 h0, h1;",
    "atomic_bf16": "atom.global.add.noftz.bf16 h0, [d0], h1;",
    "atomic_vector_f32": "red.global.add.v4.f32 [d0], {f0, f1, f0, f1};",
    "stmatrix": "stmatrix.sync.aligned.m8n8.x1.shared.b16 [r0], {r1};",
    "cluster": "barrier.cluster.arrive; barrier.cluster.wait;",
    "elect": "elect.sync r0|p0, 0xffffffff;",
    "tma": "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [r0], [d0, {r1}], [r2];",
    "tma_gather4": "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes "
    "[r0], [d0, {r1, r1, r1, r1, r1}], [r2];",
    "tma_scatter4": "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group "
    "[d0, {r1, r1, r1, r1, r1}], [r0];",
    "tma_cp_mask": "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [d0], [r0], 16, h0;",
    "tma_cluster_forms": "cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes "
    "[r0], [d0, {r1, r1, r1, r1, r1}], [r2];",
    "tma_swizzle_atoms": "tensormap.replace.tile.swizzle_atomicity.global.b1024.b32 [d0], 3;",
    "tma_swizzle_96B": "tensormap.replace.tile.swizzle_mode.global.b1024.b32 [d0], 4;",
    "tma_packed_elements": "tensormap.replace.tile.elemtype.global.b1024.b32 [d0], 15;",
    "tensormap_replace": "tensormap.replace.tile.global_address.global.b1024.b64 [d0], d1;",
    "griddepcontrol": "griddepcontrol.wait;",
    "multimem": "multimem.ld_reduce.global.add.f32 f0, [d0];",
    "setmaxnreg": "setmaxnreg.inc.sync.aligned.u32 64;",
    "wgmma": "wgmma.fence.sync.aligned;",
    "tcgen05": "tcgen05.wait::ld.sync.aligned;",
    "launch_control": "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [r0], [r1];",
    "tcgen05_ld_red": "tcgen05.ld.red.sync.aligned.32x32b.x2.max.f32 {f0, f1}, f2, [r0];",
    "redux_f32": "redux.sync.max.f32 f0, f1, 0xffffffff;",
    "cvt_fp4": "{ .reg .b8 q; cvt.rn.satfinite.e2m1x2.f32 q, f0, f1; }",
    "f32x2": "add.rn.f32x2 d0, d1, d1;",
    "load_256_bit": "ld.global.v8.f32 {f0, f1, f2, f3, f4, f5, f6, f7}, [d0];",
    "max3_f32": "max.f32 f0, f1, f2, f3;",
    "cvt_ue5m3": "cvt.rn.satfinite.ue5m3x2.f32 h0, f0, f1;",
}

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "s32": 32, "f32": 32}
BITS |= {"e4m3": 8, "e5m2": 8, "e2m1": 8, "e3m2": 8, "e2m3": 8}
REGISTERS = (
    ".reg .pred p0; .reg .b16 h0, h1; .reg .b32 r0, r1, r2; .reg .b64 d0, d1; .reg .f32 f0, f1, f2, f3, f4, f5, f6, f7;"
)


NEWEST_PTX = "9.4"


def ptxas_accepts(body: str, ptx_target: str, version: str = NEWEST_PTX) -> bool:
    text = (
        f".version {version}\n.target {ptx_target}\n.address_size 64\n"
        f".visible .entry k() .maxntid 128 {{\n{REGISTERS}\n{body}\nret;\n}}\n"
    )
    command = [require_tool("ptxas"), f"-arch={ptx_target}", "-o", "/dev/null", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=PATIENCE).returncode == 0


def bits_of(atom, type_: str) -> int:
    """Of an element in a fragment: those of 4 bits lie two to a byte in products with factors only."""
    return 4 if atom.family == "mma_block_scale" and type_ == "e2m1" else BITS[type_]


def mma(atom) -> str:
    def fragment(name, elements, type_):
        bits = elements * bits_of(atom, type_) // 32
        register = {"f64": "f64", "f32": "f32"}.get(type_, "b32")
        names = [f"{name}{i}" for i in range(bits // (64 if type_ == "f64" else 32))]
        return f".reg .{register} {', '.join(names)};", "{" + ", ".join(names) + "}"

    parts = [
        fragment("xd", atom.m * atom.n, atom.d),
        fragment("xa", atom.m * atom.k, atom.a),
        fragment("xb", atom.k * atom.n, atom.b),
        fragment("xc", atom.m * atom.n, atom.d),
    ]
    kind = f".kind::{atom.kind}" if atom.kind else ""
    shape, types = f"m{atom.m}n{atom.n}k{atom.k}.row.col", f"{atom.d}.{atom.a}.{atom.b}.{atom.d}"
    declared, operands = "\n".join(p[0] for p in parts), ", ".join(p[1] for p in parts)
    if atom.family == "mma_block_scale":
        form = "mxf8f6f4.block_scale.scale_vec::1X" if atom.k == 32 else "mxf4.block_scale.scale_vec::2X"
        name = f"mma.sync.aligned.{shape}.kind::{form}.{types}.ue8m0"
        scales = "xs, {0, 0}, xs, {0, 0}"
        return f"{declared} .reg .b32 xs; mov.b32 xs, 0x7f7f7f7f;\n{name} {operands}, {scales};"
    return f"{declared}\nmma.sync.aligned{kind}.{shape}.{types} {operands};"


@pytest.mark.oracle
def test_the_targets_are_those_of_ptxas_and_of_the_reference_assembler():
    """All from sm_80 on that they list (sm_75 is to come)."""
    listed = subprocess.run([require_tool("ptxas"), "--help"], capture_output=True, text=True, timeout=PATIENCE)
    numbers = {int(n) for n in re.findall(r"'sm_(\d+)'", listed.stdout)}
    assert [t.number for t in targets().values()] == sorted(n for n in numbers if n >= 80)
    text = subprocess.run([require_tool("tileiras"), "--help"], capture_output=True, text=True, timeout=PATIENCE).stdout
    assert list(targets()) == re.findall(r"=(sm_\d+) ", text)


@pytest.mark.oracle
@pytest.mark.parametrize("name", targets())
def test_ptxas_takes_a_target_from_its_ptx_version_on(name):
    t = target(name)
    assert ptxas_accepts("", t.ptx_target, t.ptx_version or PTX_VERSION)
    if t.ptx_version is not None:
        major, minor = t.ptx_version.split(".")
        assert not ptxas_accepts("", t.ptx_target, f"{major}.{int(minor) - 1}")


def test_every_feature_has_a_probe():
    assert set(PROBES) == set.union(*(set(t.features) for t in targets().values()))


@pytest.mark.oracle
@pytest.mark.parametrize("name", targets())
def test_ptxas_agrees_about_features(name):
    t = target(name)
    wrong = [f for f, body in PROBES.items() if ptxas_accepts(body, t.ptx_target) != t.has(f)]
    assert not wrong


@pytest.mark.oracle
@pytest.mark.parametrize("name", targets())
def test_ptxas_agrees_about_tensor_core_atoms(name):
    t = target(name)
    everywhere = {atom for other in targets().values() for atom in other.mma_atoms}
    same_types = {atom for atom in everywhere if atom.a == atom.b}  # mixed ones behave as their pairs do
    wrong = [atom for atom in same_types if ptxas_accepts(mma(atom), t.ptx_target) != (atom in t.mma_atoms)]
    assert not wrong
    mixed = [atom for atom in t.mma_atoms if atom.a != atom.b][:8]
    assert all(ptxas_accepts(mma(atom), t.ptx_target) for atom in mixed)


@pytest.mark.oracle
@pytest.mark.parametrize("name", targets())
def test_ptxas_agrees_about_where_parameters_begin(name):
    t = target(name)
    text = f".version {t.ptx_version or PTX_VERSION}\n.target {t.ptx_target}\n.address_size 64\n"
    text += ".visible .entry k(.param .u32 x) { ret; }\n"
    (kernel,) = read_cubin(assemble(text, t.ptx_target).cubin).kernels.values()
    assert kernel.parameters_at == t.parameters_at


@pytest.mark.oracle
@pytest.mark.parametrize("name", [n for n, t in targets().items() if t.ptx_target.endswith("a")])
def test_ptxas_agrees_about_the_largest_shared_memory(name):
    t = target(name)

    def uses(size):
        return f".shared .b8 buffer[{size}];\nmov.u32 r0, buffer;\nst.shared.u32 [r0], r0;"

    # ptxas keeps 1 KiB of the opt-in limit for itself where clusters exist
    assert ptxas_accepts(uses(t.shared_per_block), t.ptx_target)
    assert not ptxas_accepts(uses(t.shared_per_block + 4), t.ptx_target)


def test_the_atom_with_the_largest_k_comes_first():
    assert [a.k for a in target("sm_80").mma("f16", "f16", "f32")] == [16, 8]
    assert target("sm_80").mma("e4m3", "e4m3", "f32") == ()
    assert [a.kind for a in target("sm_120").mma("e4m3", "e5m2", "f32")] == ["", ""]
    assert [a.kind for a in target("sm_120").mma("e4m3", "e2m1", "f32")] == ["f8f6f4"]


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(UnknownTargetError, match=r"unknown GPU name 'sm_70'; known are sm_80, "):
        target("sm_70")
    with pytest.raises(KeyError):
        target("sm_80").has("warp_drive")


FAMILIES = {"f16": "HMMA", "bf16": "HMMA", "tf32": "HMMA", "s8": "IMMA", "u8": "IMMA", "s4": "IMMA", "u4": "IMMA"}
FAMILIES |= dict.fromkeys(("e4m3", "e5m2", "e2m1", "e3m2", "e2m3"), "QMMA") | {"f64": "DMMA"}
DMMA = {(8, 8, 4): ("DMMA.884", "DMMA.8x8x4"), (16, 8, 16): ("DMMA.16x8x16",)}
DMMA |= {(16, 8, 8): ("DMMA.16x8x8",), (16, 8, 4): ("DMMA.16x8x4",)}


def executed_opcodes(atom) -> tuple[str, ...]:
    """How nvdisasm spells an atom's shape."""
    if atom.a == "f64":
        return DMMA[atom.m, atom.n, atom.k]
    factors = "SF." if atom.family == "mma_block_scale" else ""
    name = "OMMA" if bits_of(atom, atom.a) == 4 and factors else FAMILIES[atom.a]
    return (f"{name}.{factors}{atom.m}{atom.n}{atom.k}.",)


def kernel_of(atoms, t) -> str:
    """PTX that does a product with each atom, the one with number i on line i + 1, of loaded and stored registers."""
    body = []
    for line, atom in enumerate(atoms, 1):
        counts = {"d": (atom.m * atom.n, atom.d), "a": (atom.m * atom.k, atom.a)}
        counts |= {"b": (atom.k * atom.n, atom.b), "c": (atom.m * atom.n, atom.d)}
        declared, moved, stored = mma(atom).splitlines()[:-1], [], []
        for name, (elements, type_) in counts.items():
            size = 8 if type_ == "f64" else 4
            kind = type_ if type_ in ("f32", "f64") else "b32"
            for i in range(elements * bits_of(atom, type_) // 32 // (size * 8)):
                list_, order = (stored, "st") if name == "d" else (moved, "ld")
                place = f"[d0+{1024 * line + 128 * 'abcd'.index(name) + size * i}]"
                operands = f"{place}, x{name}{i}" if name == "d" else f"x{name}{i}, {place}"
                list_.append(f"{order}.global.{kind} {operands};")
        body += ["{", *declared, ".loc 1 9999 0", *moved, f".loc 1 {line} 0", mma(atom).splitlines()[-1]]
        body += [".loc 1 9999 0", *stored, "}"]
    lines = "\n".join(body)
    return (
        f'.version {NEWEST_PTX}\n.target {t.ptx_target}\n.address_size 64\n.file 1 "k.cu"\n'
        f".visible .entry k(.param .u64 p) {{\n.reg .b64 d0; ld.param.u64 d0, [p];\n{lines}\nret;\n}}\n"
    )


@pytest.mark.oracle
@pytest.mark.parametrize("name", targets())
def test_the_hardware_executes_an_atom_as_the_data_says(name, tmp_path):
    t = target(name)
    # Products of 4-bit integers, which Tile IR has not, are calls of a routine from sm_90 on.
    atoms = [atom for atom in t.mma_atoms if atom.a[1:] != "4" and atom.b[1:] != "4"]
    cubin = tmp_path / "k.cubin"
    command = [require_tool("ptxas"), f"-arch={t.ptx_target}", "-lineinfo", "-o", cubin, "-"]
    subprocess.run(command, input=kernel_of(atoms, t), text=True, check=True, timeout=PATIENCE)
    lines = sass.by_line(cubin.read_bytes())
    for line, atom in enumerate(atoms, 1):
        done = [code for code in sass.opcodes(lines[line]) if "MMA" in code]
        assert done and all(code.startswith(executed_opcodes(t.executed(atom))) for code in done), (atom, done)


UNUSED_PROBES = {
    "wgmma": "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2 {f0, f1, f2, f3}, d0, d1, p0, 1, 1;",
    "tcgen05.mma": "tcgen05.mma.cta_group::1.kind::f8f6f4 [r0], d0, d1, r1, p0;",
    "tcgen05.mma with block_scale": (
        "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [r0], d0, d1, r1, [r2], [r2], p0;"
    ),
    "mma.sync with block_scale": (
        "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e2m1.f32.ue8m0"
        " {f0, f1, f2, f3}, {r0, r0, r0, r0}, {r1, r1}, {f4, f5, f6, f7}, r2, {h0, h0}, r2, {h0, h0};"
    ),
}  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("name", targets())
def test_ptxas_agrees_about_instructions_that_are_not_generated(name):
    t = target(name)
    accepted = {i for i, body in UNUSED_PROBES.items() if ptxas_accepts(body, t.ptx_target)}
    assert accepted - {"wgmma"} == {u.instruction for u in t.unused_tensor_cores} - {"wgmma"}
    assert ("wgmma" in accepted) == t.has("wgmma")


def wgmma(family, columns) -> str:
    words = columns // (4 if family.d == "f16" else 2)
    names = [f"xd{i}" for i in range(words)]
    registers = f".reg .{'f32' if family.d == 'f32' else 'b32'} {', '.join(names)};"
    scales = "" if family.d == "s32" else ", 1, 1" + (", 0, 0" if family.transposed else "")
    name = f"wgmma.mma_async.sync.aligned.m64n{columns}k{family.k}.{family.d}.{family.a}.{family.b}"
    return f"{registers}\n{name} {{{', '.join(names)}}}, d0, d1, p0{scales};"


@pytest.mark.oracle
def test_wgmma_has_the_declared_shapes_and_types():
    t = target("sm_90")
    for family in t.wgmma_families:
        assert ptxas_accepts("\n".join(f"{{\n{wgmma(family, n)}\n}}" for n in family.columns), t.ptx_target), family
        for n in range(8, 265, 8):
            if n not in family.columns and (family.a == family.b):
                assert not ptxas_accepts(wgmma(family, n), t.ptx_target), (family, n)
    assert not any(other.wgmma_families for other in targets().values() if not other.has("wgmma"))
    assert not ptxas_accepts(wgmma(t.wgmma("tf32", "tf32", "f32"), 8).replace(", 1, 1", ", 1, 1, 1, 1"), t.ptx_target)


@pytest.mark.oracle
@pytest.mark.parametrize("name", [t.name for t in targets().values() if t.tcgen05_families])
def test_tcgen05_has_the_declared_kinds(name):
    """Types stand in the instruction descriptor, which ptxas does not read: it knows the kinds."""
    t = target(name)
    kinds = {f.kind for f in t.tcgen05_families}
    for kind in ("f16", "tf32", "f8f6f4", "i8"):
        body = f".reg .b32 i0;\ntcgen05.mma.cta_group::1.kind::{kind} [i0], d0, d1, i0, p0;"
        assert ptxas_accepts(body, t.ptx_target) == (kind in kinds), kind
    assert t.has("tcgen05")


def test_tcgen05_is_declared_where_it_is():
    assert not any(t.tcgen05_families for t in targets().values() if not t.has("tcgen05"))
