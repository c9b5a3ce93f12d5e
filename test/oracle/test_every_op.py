# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The original disassembler reads every op that libtile writes from text, and prints or refuses it as libtile does."""

from __future__ import annotations

import pytest
from xdsl.ir import Attribute

from asm.op_texts import CASES
from libtile import asm, bytecode
from libtile.asm.disasm_names import disassembly
from libtile.asm.module import diagnose
from libtile.asm.record_text import disassembled
from libtile.dialects.cuda_tile import types
from libtile.dialects.cuda_tile.bridge import from_bytecode
from libtile.dialects.cuda_tile.to_bytecode import write_bytecode
from libtile.spec import OpSpec, Version, default_spec
from oracle import OracleError, require_tool, run_tileirdisasm

SPEC = default_spec()
OPS = [op for name, op in SPEC.ops.items() if name in CASES and not SPEC.is_testing_op(op)]


class Prelude:
    """Ops that make values of any type from an entry's scalar parameters."""

    def __init__(self) -> None:
        self.parameters: list[str] = []
        self.lines: list[str] = []

    def fresh(self, text: str) -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def make(self, type_: Attribute) -> str:
        """The name of a value of the type."""
        match type_:
            case types.TokenType():
                return self.fresh("make_token : token")
            case types.TileType(element_type=types.PointerType()):
                return self._pointers(type_)
            case types.TileType():
                return self._constant(type_)
            case types.TensorViewType():
                return self._tensor_view(type_)
            case types.TileViewType():
                view = self.make(type_.tensor_view)
                return self.fresh(f"make_{type_.mnemonic} {view} : {types.type_text(type_)}")
        raise TypeError(f"no way to make a value of {type_}")

    def _constant(self, type_: types.TileType) -> str:
        name = types.NUMBER_NAMES[type_.element_type]
        if name == "i4":
            wide = types.TileType(type_.shape, types.i8)
            return self.fresh(f"trunci {self._constant(wide)} : {types.type_text(wide)} -> {types.type_text(type_)}")
        value = "1.0" if types.is_float(type_.element_type) else "true" if name == "i1" else "1"
        return self.fresh(f"constant <{name}: {value}> : {types.type_text(type_)}")

    def _pointers(self, type_: types.TileType) -> str:
        scalar = types.TileType((), type_.element_type)
        parameter = f"%p{len(self.parameters)}"
        self.parameters.append(f"{parameter}: {types.type_text(scalar)}")
        if not type_.shape:
            return parameter
        ones = types.TileType((1,) * type_.rank, type_.element_type)
        spread = self.fresh(f"reshape {parameter} : {types.type_text(scalar)} -> {types.type_text(ones)}")
        return self.fresh(f"broadcast {spread} : {types.type_text(ones)} -> {types.type_text(type_)}")

    def _tensor_view(self, type_: types.TensorViewType) -> str:
        pointer = types.TileType((), types.PointerType(type_.element_type, type_.ptr_attr))
        base = self.make(pointer)
        size = self.make(types.TileType((), types.i32))
        shape, strides = (
            ", ".join(size if n == types.DYNAMIC else str(n) for n in side) for side in (type_.shape, type_.strides)
        )
        given = [types.type_text(pointer)] if type_.ptr_attr is not None else []
        given += ["tile<i32>"] if types.DYNAMIC in (*type_.shape, *type_.strides) else []
        head = f"{', '.join(given)} -> " if given else ""
        text = f"make_tensor_view {base}, shape = [{shape}], strides = [{strides}] : {head}{types.type_text(type_)}"
        return self.fresh(text)


def argument_types(texts: list[str]) -> list[Attribute]:
    arguments = ", ".join(f"%a{i}: {text}" for i, text in enumerate(texts))
    module = asm.parse(f"cuda_tile.module @m {{ testing$func @f({arguments}) {{ return }} }}", implicit_module=False)
    function = module.regions[0].block.first_op
    assert function is not None
    return [argument.type for argument in function.regions[0].block.args]


def kernel(texts: list[str], body: str) -> str:
    prelude = Prelude()
    names = [prelude.make(type_) for type_ in argument_types(texts)]
    for number in reversed(range(len(names))):
        body = body.replace(f"%arg{number}", names[number])
    lines = "\n".join([*prelude.lines, body, "return"])
    data = "global @data <f32: 1.0> : tile<1xf32>\n"
    return f"cuda_tile.module @kernels {{\n{data}entry @f({', '.join(prelude.parameters)}) {{\n{lines}\n}}\n}}\n"


def check(text: str, version: Version, previews: tuple[str, ...]) -> None:
    module = asm.parse(text, implicit_module=False)
    data = write_bytecode(module, version)
    options = [f"--preview={name}" for name in previews]
    problems = diagnose(module)
    if problems:
        with pytest.raises(OracleError) as refused:
            run_tileirdisasm(data, *options)
        assert problems[0].message in str(refused.value)
        return
    text = run_tileirdisasm(data, *options)
    assert text == disassembly(from_bytecode(bytecode.read(data, preview=previews)))
    assert text == disassembled(bytecode.read(data, preview=previews))


@pytest.mark.oracle
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_original_reads_the_op(op: OpSpec) -> None:
    require_tool("tileirdisasm")
    written = 0
    previews = (op.preview,) if op.preview else ()
    for case in CASES[op.name]:
        text = kernel(*case)
        check(text, SPEC.current, previews)
        try:
            check(text, op.since, previews)
        except bytecode.MigrationError:
            continue
        written += 1
    assert written or op.name == "exti"  # its only case is about i4, which came later
