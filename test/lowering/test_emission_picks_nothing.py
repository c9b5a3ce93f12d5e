# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What emission may ask of the rooms that choose: `codegen` and `to_llvm` carry out what stands in the IR.

Of `atoms`, `layouts`, `targets` and the passes they may use what is on the lists below, each with its reason. What
weighs one way against another is on none of them. Features of targets, of which an instruction's spelling may depend,
are on a list of their own.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import libtile

ROOT = Path(libtile.__file__).parent
EMISSION = [*sorted((ROOT / "codegen").glob("*.py")), *sorted((ROOT / "lowering" / "to_llvm").glob("*.py"))]
ASKED = ("libtile.atoms", "libtile.layouts", "libtile.targets", "libtile.lowering.tileas", "libtile.lowering.to_tileas")

ALLOWED: dict[str, set[str]] = {
    # how two given layouts relate, and pieces of a given number
    "libtile.atoms.conversions": {"cut", "within_warps"},
    # registers of copies of a given width
    "libtile.atoms.cp_async": {"async_groups"},
    # element types as an instruction names them
    "libtile.atoms.operand_types": {"multiplied_element", "packed_elements"},
    # registers and offsets of a given instruction
    "libtile.atoms.shared_accesses": {"Offsets", "WORD_BYTES", "accesses_by", "normalized", "reduced"},
    # boxes and operands in shared memory, as a given layout and a given atom have them
    "libtile.atoms.tma": {
        "Boxes", "Copy", "GATHERED", "MAX_BYTES", "boxes", "contiguous_dim", "map_element", "row_boxes", "rows_of",
    },
    "libtile.atoms.wgmma": {
        "GROUP_WARPS", "ROWS", "SharedOperand", "accumulator_registers", "shared_operand", "transposed_atoms",
    },
    # descriptors of given operands, and which columns and lanes of tensor memory a given tile has
    "libtile.atoms.tcgen05": {
        "COLUMN_BITS", "FRAGMENT_BITS", "FRAGMENT_COLUMNS", "FRAGMENT_LANES", "GROUP_WARPS", "HALF_LANES", "LANES",
        "PACKED", "WARP_LANES", "are_loaded_by", "block_columns", "ctas_of", "fields", "instruction",
        "kind", "register_layout", "result_columns", "row_blocks", "row_layout", "row_warps", "shared_operand",
        "transposed_atoms",
    },
    # chunks that a copy to a given layout by a given instruction moves
    "libtile.atoms.transposing_copies": {
        "OTHER_WORD", "SELECTOR", "SELECTOR_BITS", "Side", "Transposition", "transposition",
    },
    # what a given instruction with factors is called, and how much of its operands it takes
    "libtile.atoms.mma_block_scale": {"Kind", "depth_bytes", "kind", "shares_bytes"},
    # and those of scale factors
    "libtile.atoms.tcgen05_factors": {
        "DESCRIPTOR", "UNIT", "WORD_BLOCKS", "chunks", "column", "in_bytes", "instruction", "kind",
    },
    # layouts themselves, and what renaming makes of them
    "libtile.layouts": {"LANE", "OFFSET", "REGISTER", "WARP", "LinearLayout"},
    "libtile.layouts.builders": {"row_major"},
    "libtile.layouts.convert": {"Conversion", "ShuffleRound", "shuffle_rounds"},
    "libtile.layouts.f2": {"apply", "complement", "independent", "rank", "solve"},
    "libtile.layouts.parts": {"cat_layout", "part_bits"},
    "libtile.layouts.registers": {"register_groups", "representatives", "unique_registers"},
    "libtile.layouts.renaming": {"grown", "permuted", "reshaped", "without_register_copies"},
    "libtile.layouts.shared_access": {"SharedAccess", "SharedWay", "TRANSPOSED", "VECTOR", "padded"},
    # what given steps of a reduction or a scan do to a layout
    "libtile.layouts.collectives": {
        "EXCHANGE", "Fold", "LANES", "REDUX", "REGISTERS", "Run", "SharedTrip", "Step", "WARPS", "folds",
        "reduced_layout", "runs",
    },
    # attributes of the IR, and what they say about bytes
    "libtile.lowering.tileas.memory.allocate_tensor_memory": {"COLUMNS", "LANE", "OFFSET"},
    "libtile.lowering.tileas.pipelines.count_arrivals": {
        "BY_THREADS",
        "COUNTED",
        "EMPTY",
        "EXPECTED",
        "FULL",
        "copied_bytes",
    },
    "libtile.lowering.tileas.memory.fences": {"ACQUIRES", "INSTRUCTION_SEMANTIC", "RELEASES", "instruction_semantic"},
    "libtile.lowering.tileas.copies.select_copies": {"offset_bits", "vector_of"},
    "libtile.lowering.tileas.memory.shared_check": {"check_shared_memory"},
    "libtile.lowering.tileas.memory.shared_memory": {
        "MOST_AGENTS", "STAGE_BARRIER_BYTES", "alignment_of", "counter_word", "drawing_bytes", "drawing_word",
        "drawn_sides", "stage_offsets", "tile_bytes",
    },
    "libtile.lowering.tileas.memory.storage_lives": {
        "BARRIERS", "BYTES", "BYTES_ALIGNMENT", "DRAWING", "OFFSET", "TENSOR_ADDRESS_BYTES", "integer_attribute",
        "places_of",
    },
    "libtile.lowering.tileas.copies.common": {"HOST_CODE"},
    "libtile.lowering.tileas.copies.recipes": {"boxes_of"},
    "libtile.lowering.tileas.exchanges.ways": {
        "STEPS_AT_ONCE", "handed_out_by", "hands_out", "is_part", "shared_ways_of", "ways_of",
    },
    "libtile.lowering.to_tileas.shape_layouts": {"scalar_layout"},
    "libtile.lowering.to_tileas.types": {"layout_of"},
    # names of instructions and targets, and sizes of what hardware reads
    "libtile.targets": {"DATA_LAYOUT", "MMA_BLOCK_SCALE", "MMA_SYNC", "TRIPLE", "MmaAtom", "Target", "mma_families"},
    "libtile.targets.tensor_map": {"ALIGNMENT", "MAX_RANK", "SIZE", "TiledMap", "encode"},
}  # fmt: skip

FEATURES = {
    # forms of an instruction, by which the same is done
    "cluster", "cvt_fp4", "elect", "f32x2", "griddepcontrol", "launch_control", "mbarrier", "tma",
    # a chosen instruction is refused where the target lacks it
    "atomic_bf16", "atomic_vector_f32", "multimem", "setmaxnreg", "stmatrix", "tcgen05",
    "tensormap_replace", "tma_gather4", "tma_scatter4",
}  # fmt: skip

LOOKS_AROUND = {
    # whole kernels and blocks are gone through, op by op
    "conversion.convert_function", "conversion.convert_module", "emitter.emit_block",
    # how many warps a kernel has, and whether it takes programs over
    "agents.total_warps", "grid.begin_programs",
    # an op that stands where it cannot is refused
    "agents._switch", "rings.make",
    # what nobody uses is not made
    "atomics._atomic_cas", "atomics._atomic_rmw", "atomics._tiled_atomic", "pipelines._on_stage",
    # what the ops of one block have computed is not computed again for the next one of it
    "emitter.number",
    # left to be said by ops: which numbers of a loop LLVM is to know nothing of, and what a turn computes anew
    "control._for", "control._multiplies", "control._turn", "pipelines._inc_iter", "rings.feeds_wgmma",
    "rings.show_uniform",
}  # fmt: skip
"""The functions of rules that look at more than their op and its operands."""
AROUND = {
    "parent", "parent_op", "parent_block", "next_op", "prev_op", "uses", "first_use", "has_one_use", "ops_of", "ops_in",
    "ops_around", "inner_ops",
}  # fmt: skip
"""What they look by."""

CHOOSING = {
    "libtile.atoms.conversions": ("conversion", "is_kept", "shared_bytes"),
    "libtile.atoms.cp_async": ("copy_width", "operand_shared_layout", "staged_layout"),
    "libtile.atoms.mma_layouts": ("dot_layouts", "scaled_layouts"),
    "libtile.atoms.shared_accesses": ("accesses", "shared_between"),
    "libtile.layouts.collectives": ("reduction_steps", "scan_steps", "unit_layout"),
    "libtile.layouts.convert": ("conflict_free_shared", "shared_for"),
    "libtile.layouts.parts": ("in_registers",),
    "libtile.lowering.tileas.exchanges.explicit_conversions": ("product_slices", "staged", "taken_part"),
    "libtile.lowering.tileas.exchanges.shared_atoms": ("between", "loaded_by", "stored_by", "transposed_by"),
}
"""What weighs ways against each other, which is what the lists keep out."""


def is_module(name: str) -> bool:
    path = ROOT.parent / Path(*name.split("."))
    return path.with_suffix(".py").exists() or path.is_dir()


def used(tree: ast.Module) -> Iterator[tuple[str, str, int]]:
    """(module, name, line) of what a file takes from the rooms that are asked."""
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith(ASKED):
            for alias in node.names:
                if is_module(f"{node.module}.{alias.name}"):
                    modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                else:
                    yield node.module, alias.name, node.lineno
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            yield modules[node.value.id], node.attr, node.lineno


def features(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """(feature, line) of what a file asks of a target."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "has":
            for argument in node.args:
                if isinstance(argument, ast.Constant):
                    yield str(argument.value), node.lineno


def test_emission_uses_what_carries_choices_out_and_nothing_that_chooses() -> None:
    wrong: list[str] = []
    seen: dict[str, set[str]] = defaultdict(set)
    asked: set[str] = set()
    for path in EMISSION:
        tree = ast.parse(path.read_text())
        for module, name, line in used(tree):
            seen[module].add(name)
            if name not in ALLOWED.get(module, ()):
                wrong.append(f"{path.name}:{line} uses {module}.{name}")
        for feature, line in features(tree):
            asked.add(feature)
            if feature not in FEATURES:
                wrong.append(f"{path.name}:{line} asks a target for {feature}")
    assert not wrong, "\n".join(["a pass chooses, and emission carries out:", *wrong])
    unused = [f"{m}.{n}" for m, names in ALLOWED.items() for n in sorted(names - seen[m])]
    assert not unused and asked == FEATURES, f"no longer used: {[*unused, *(FEATURES - asked)]}"


def test_the_lists_keep_out_what_chooses() -> None:
    for module, names in CHOOSING.items():
        for name in names:
            assert callable(getattr(import_module(module), name))
            assert name not in ALLOWED.get(module, ())


def test_rules_look_at_their_op_alone() -> None:
    looking = set()
    for path in EMISSION:
        for function in ast.walk(ast.parse(path.read_text())):
            if path.parent.name == "to_llvm" and isinstance(function, ast.FunctionDef):
                names = {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}
                names |= {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
                if names & AROUND:
                    looking.add(f"{path.stem}.{function.name}")
    assert looking <= LOOKS_AROUND, f"an attribute says what these look for: {sorted(looking - LOOKS_AROUND)}"
    assert looking == LOOKS_AROUND, f"no longer look around: {sorted(LOOKS_AROUND - looking)}"
