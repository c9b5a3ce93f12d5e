# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The record of a compilation: that its stages are linked as they should be."""

import json
import re
import subprocess
import sys
import urllib.request

import pytest
from xdsl.dialects.builtin import ModuleOp, UnrealizedConversionCastOp, f32

import libtile
from libtile.backend import nvdisasm
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.types import BufferType
from libtile.explore import explore, page
from libtile.explore.listings import Layouts, warpgroup_products
from libtile.explore.record import _text_of
from libtile.explore.sass import HOW_TO_GET_IT, amount, kind_of, listed
from libtile.layouts import LinearLayout
from libtile.support.errors import LibtileError
from patience import PATIENCE

from .conftest import GEMM, ROOT


def rows(record, listing: str, op: int, compilation: int = 0) -> str:
    """The lines of a stage that were made for an op."""
    found = record.compilations[compilation].listings[listing]
    return "\n".join(line for line, made_for in zip(found.lines, found.ops) if made_for == op)


def op_of(record, text: str) -> int:
    return next(n for n, line in enumerate(record.tile_ir.lines, 1) if text in line)


@pytest.mark.parametrize(
    ("compilation", "products", "stores"),
    [
        (
            0,
            ("nv_tileas.async.dot", "wgmma.mma_async", "HGMMA"),
            ("nv_tileas.async.tiled_tma_store", "bulk.tensor.2d.global", "bulk.tensor.2d.global", "UTMASTG"),
        ),
        (1, ("nv_tileas.dot", "mma.sync", "HMMA"), ("nv_tileas.tiled_store", " store ", "st.global", "STG")),
    ],
)
def test_the_machine_code_of_an_op_is_what_the_op_needs(record, compilation, products, stores):
    dot, ptx, sass = products
    product, store = op_of(record, "mmaf "), op_of(record, "store_view_tko")
    for stage, of_product, of_store in (
        ("nv_tileaa", "nv_tileaa.dot", "nv_tileaa.tiled_store"),
        ("nv_tileas", dot, stores[0]),
        ("llvm", ptx, stores[1]),
        ("ptx", ptx, stores[2]),
        ("sass", sass, stores[3]),
    ):
        for op, wanted, other in ((product, of_product, of_store), (store, of_store, of_product)):
            text = rows(record, stage, op, compilation)
            assert wanted in text and other not in text, (stage, text)


def test_all_products_of_a_warpgroup_are_those_of_their_op(record):
    """ptxas's table has no lines for most of them: they would go with the line before them, which is anything."""
    listing = record.compilations[0].listings["sass"]
    products = {op for line, op in zip(listing.lines, listing.ops) if "HGMMA" in line}
    assert products == {op_of(record, "mmaf ")}


def test_products_of_a_shape_that_several_ops_have_stay_where_the_table_has_them():
    lines = [f"\twgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16 {{}};" for n in (32, 64, 64, 64)]
    assert warpgroup_products("\n".join(lines), {1: 7, 2: 8, 3: 8, 4: 9}) == {"64x32x16": 7}
    assert warpgroup_products("\n".join(lines), {1: 7, 2: 8, 3: 8, 4: 8}) == {"64x32x16": 7, "64x64x16": 8}


def test_an_op_leads_to_its_line_of_the_source(record):
    (source,) = record.sources
    assert source.path == "examples/gemm.py" and source.lines == (ROOT / source.path).read_text().splitlines()
    for text, wanted in (("mmaf ", "ct.mma("), ("store_view_tko", "ct.store(")):
        place = record.places[op_of(record, text)]
        assert wanted in source.lines[place.line - 1][place.column - 1 :] or wanted in source.lines[place.line - 1]


def test_most_instructions_are_linked(record):
    listing = record.compilations[0].listings["sass"]
    instructions = [op for line, op in zip(listing.lines, listing.ops) if re.match(r"  [0-9a-f]{4,}  ", line)]
    assert len(instructions) == record.compilations[0].kernels[0].instructions
    assert sum(map(bool, instructions)) > 0.9 * len(instructions)


def test_what_is_known_of_a_kernel(record):
    kernel = record.compilations[0].kernels[0]
    made = libtile.compile(GEMM, "sm_90", line_info=True).kernels["gemm"]
    assert (kernel.registers, kernel.shared, kernel.threads) == (made.registers, made.smem, made.block_dim[0])
    consumer, producer = (loop for loop in kernel.loops if loop.instructions > 10)  # others spin at barrier objects
    lines = record.compilations[0].listings["sass"].lines
    assert lines[consumer.first].startswith(".L_") and "BRA" in lines[consumer.last]
    products = sum("HGMMA" in line for line in lines[consumer.first : consumer.last])
    assert (consumer.counts["matrix products"], producer.counts["global memory"]) == (products, 2)
    # 58 registers of 256 threads leave room for 4 CTAs in 65,536; 80 KiB of shared memory for 2 in 228 KiB.
    assert kernel.ctas == {"warps": 8, "shared memory": 3, "registers": 4}


def test_shared_memory_is_a_map(record):
    # Behind the tiles of a producer's stages lie two barrier objects for each; in the stages the tile that is stored.
    stages, barriers, stored = (room for room in record.compilations[0].kernels[0].rooms)
    assert [(r.offset, r.size) for r in (stages, barriers)] == [(0, 8 * 8192), (8 * 8192, 2 * 8 * 8)]
    assert "create_pipeline" in stages.what and barriers.what == stages.what and "alloc_tensor" in stored.what
    assert stored.offset + stored.size <= stages.size
    # Elsewhere an exchange behind the loop lies in stages that nobody reads any more.
    ring, exchange = record.compilations[1].kernels[0].rooms
    assert (ring.offset, ring.size) == (0, 32768)
    assert exchange.offset + exchange.size <= ring.size and exchange.first > ring.last
    for compilation in record.compilations:
        lines = compilation.listings["nv_tileas"].lines
        assert all(room.what in lines[room.first - 1] for room in compilation.kernels[0].rooms)


def test_layouts_have_short_names(record):
    text = "\n".join(record.compilations[0].listings["nv_tileas"].lines)
    assert "#nv_tileas.layout" not in text and "#layout1" in text
    layouts = Layouts()
    given = LayoutAttr(
        LinearLayout.of({"register": [[0, 1]], "lane": [[0, 2], [1, 0]], "warp": []}, {"dim0": 2, "dim1": 8})
    )
    layouts.name(ModuleOp([UnrealizedConversionCastOp.get([], [BufferType((2, 8), f32, "shared", given)])]))
    assert layouts.shortened(f"tile<2x8xf32, {given}>") == "tile<2x8xf32, #layout0>"
    (layout,) = layouts.found.values()
    assert (layout.bases, layout.shape) == ({"register": [[0, 1]], "lane": [[0, 2], [1, 0]], "warp": []}, (2, 8))


def test_code_without_labels_or_kernels_has_no_loops():
    text = ".text.k:\n        /*0000*/    EXIT ;\n.L_x_0:\n        /*0010*/    BRA `(.L_x_0);\n"
    code = listed(nvdisasm.read(text), {})
    assert code.loops == {"k": []} and [i.opcode for _, i in code.instructions["k"]] == ["EXIT", "BRA"]


def test_what_stands_behind_a_kernels_code_is_apart_from_the_line_in_front_of_it():
    places = "\n".join(f'\t//## File ".nv_debug_ptx_txt", line {line}\n        {code} ;' for line, code in enumerate((
        "/*0000*/    CALL.REL.NOINC `($__internal_0_$div)",
        "/*0010*/    CALL.REL.NOINC `($__internal_1_$root)",
        "/*0020*/    CALL.REL.NOINC `($__internal_1_$root)",
        "/*0030*/    EXIT",
    ), 1))  # fmt: skip
    text = (
        f".text.k:\n{places}\n$__internal_0_$div:\n        /*0040*/    RET.REL.NODEC R6 `(k) ;\n"
        "$__internal_1_$root:\n        /*0050*/    RET.REL.NODEC R6 `(k) ;\n"
        ".L_x_0:\n        /*0060*/    BRA `(.L_x_0);\n        /*0070*/    NOP;\n.L_x_1:\n"
    )
    code = listed(nvdisasm.read(text), {1: 7, 2: 8, 3: 9, 4: 10})
    listing = code.listing
    assert [(line.split()[-1], op) for line, op in zip(listing.lines[5:], listing.ops[5:], strict=True)] == [
        ("$__internal_0_$div:", 7),  # its only caller's
        ("`(k)", 7),
        ("$__internal_1_$root:", 0),  # of several
        ("`(k)", 0),
        (".L_x_0:", 0),
        ("`(.L_x_0)", 0),
        ("NOP", 0),
        (".L_x_1:", 0),
    ]
    assert [i.opcode for at, i in code.instructions["k"] if at not in code.apart] == ["CALL", "CALL", "CALL", "EXIT"]


def test_numbers_of_instructions_are_said_in_words():
    assert [amount(n, "branches") for n in (1, 2)] == ["1 branch", "2 branches"]
    assert [amount(n, "shuffles") for n in (1, 2)] == ["1 shuffle", "2 shuffles"]
    assert [amount(1, kind) for kind in ("arithmetic", "global memory")] == ["1 arithmetic", "1 global memory"]


@pytest.mark.parametrize(
    "text, kind",
    [("@!P0 LDG.E.128 R4, [R2.64]", "global memory"), ("NOP", "other"), ("UIADD3 UR4, UR4, 1, URZ", "arithmetic")],
)
def test_instructions_are_told_apart_by_their_opcodes(text, kind):
    (instruction,) = nvdisasm.read(f"        /*0000*/    {text} ;")
    assert kind_of(instruction) == kind


def test_a_folder_of_sources_that_is_not_there_is_an_error(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "libtile_cli", "explore", "--source", str(tmp_path / "none"), str(GEMM)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 2 and "--source" in done.stderr and "does not exist" in done.stderr
    assert not list(tmp_path.iterdir())


def test_sources_are_looked_for_below_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert _text_of("examples/gemm.py", ["."]) is None
    assert _text_of("/elsewhere/examples/gemm.py", [ROOT])[-1] == _text_of(str(ROOT / "examples/gemm.py"), [])[-1]
    assert _text_of("a\0b", ["."]) is None


def test_without_nvdisasm_the_pane_says_how_to_get_it(monkeypatch):
    from libtile.backend.tools import ToolNotFoundError
    from libtile.explore import sass

    def missing(name):
        raise ToolNotFoundError(name)

    monkeypatch.setattr(nvdisasm, "find_tool", missing)
    assert sass.disassembled(b"", {}).listing.note == HOW_TO_GET_IT


def test_text_that_would_end_the_script_is_escaped():
    module = libtile.parse('cuda_tile.module @m { entry @k() { print_tko "</script><b>" -> token\n return } }')
    text = page(explore(module, name="</title>"))
    assert text.count("</script>") == 2 and "</title></title>" not in text
    data = json.loads(re.search(r'type="application/json">(.*)</script>', text)[1])
    assert any("</script>" in line for line in data["tileIr"]["lines"])


def test_what_cannot_be_compiled_is_an_error():
    with pytest.raises(LibtileError):
        explore(b"no module")


# -- the command ------------------------------------------------------------------------------------------------------


def command(*arguments: str, **options):
    return subprocess.run(
        [sys.executable, "-m", "libtile_cli", *arguments], capture_output=True, text=True, check=False, **options
    )


def test_the_command_writes_the_page(tmp_path):
    (tmp_path / "k.mlir").write_text("cuda_tile.module @m { entry @k() { return } }")
    done = command("explore", "k.mlir", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "k.html").read_text().startswith("<!doctype html>")


def test_wrong_commands_are_told():
    assert "did you mean 'explore'?" in command("explor").stderr
    assert command("explore", "--serve=0", "-").returncode == 2
    done = command("explore", "nothing.bc")
    assert done.returncode == 1 and "cannot open input file 'nothing.bc'" in done.stderr


def test_a_served_page_follows_its_file(tmp_path):
    file = tmp_path / "k.mlir"
    file.write_text("cuda_tile.module @m { entry @one() { return } }")
    serving = subprocess.Popen(
        [sys.executable, "-m", "libtile_cli", "explore", "--serve=0", str(file)], stderr=subprocess.PIPE, text=True
    )
    try:
        address = serving.stderr.readline().split()[0]

        def get(path):
            with urllib.request.urlopen(address + path, timeout=PATIENCE) as answer:
                return answer.read().decode()

        assert "entry @one" in get("") and get("version") == "1"
        new = tmp_path / "new.mlir"
        new.write_text("cuda_tile.module @m { entry @two() { nonsense } }")
        new.replace(file)  # as a whole: what is half written would be compiled too
        assert "was compiled anew" in serving.stderr.readline()
        assert "error" in get("") and get("version") == "2"
    finally:
        serving.kill()
        serving.communicate()


def test_a_call_that_is_inlined_has_a_column_of_the_source():
    """transpose.bc calls a function; the place of the call in LLVM IR is no place of the line table."""
    record = explore(ROOT / "examples" / "transpose.bc", ["sm_90"], source_folders=[ROOT])
    load = op_of(record, "load_view_tko")
    assert "load" in rows(record, "llvm", load) and "ld.global" in rows(record, "ptx", load)
