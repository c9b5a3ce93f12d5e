# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The lowest stage in MLIR: LLVM IR as a module of MLIR's llvm dialect.

LLVM's own parser reads the text (through llvmlite); each instruction becomes the op of the same name, a phi an argument
of its block, intrinsics `llvm.call_intrinsic`. What LLVM makes of the result (`translate_module_to_llvmir` of IREE's
bindings) is the same program.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from ctypes import c_void_p, cast
from typing import Any

from libtile.ir.strings import quote
from libtile.mlir.bindings import current_context, errors_of, message_of
from libtile.mlir.llvm_values import Reader
from libtile.support.errors import LibtileError
from libtile.support.signatures import checked

CONVERGENT = "libtile.convergent"
"""On inline assembly that threads have to run together. The llvm dialect has no word for it."""

CALLED = re.compile(r"llvm\.nvvm\.(add|mul|fma|div|sqrt|rcp)\.r[nzmp](\.ftz)?\.[fd]")
"""Intrinsics that newer LLVMs have under other names: they are calls, which LLVM knows by these; other intrinsics are
`llvm.call_intrinsic`, whose name it looks up."""

_PLAIN = frozenset((
    "add", "sub", "mul", "udiv", "sdiv", "urem", "srem", "shl", "lshr", "ashr", "and", "or", "xor",
    "fadd", "fsub", "fmul", "fdiv", "frem", "fneg", "select", "freeze", "unreachable",
    "trunc", "zext", "sext", "fptrunc", "fpext", "fptoui", "fptosi", "uitofp", "sitofp",
    "ptrtoint", "inttoptr", "bitcast", "addrspacecast", "extractelement", "insertelement",
))  # fmt: skip
"""Instructions whose op has the same operands, and no property but flags."""

_INTEGER_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_FLOAT_PREDICATES = (
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true",
)  # fmt: skip
"""The predicates of icmp and fcmp in the order of the llvm dialect's numbers."""

_FAST = ("reassoc", "nnan", "ninf", "nsz", "arcp", "contract", "afn", "fast")
_ORDERINGS = {"unordered": 1, "monotonic": 2, "acquire": 4, "release": 5, "acq_rel": 6, "seq_cst": 7}
_ATOMICS = ("xchg", "add", "sub", "and", "nand", "or", "xor", "max", "min", "umax", "umin")
"""The functions of atomicrmw in the order of the llvm dialect's numbers."""
_METADATA = re.compile(r", !([\w.]+) ![\w{}]+")
_ARGUMENT_ATTRIBUTES = {"noundef", "readonly", "writeonly", "noalias", "nonnull"}


@checked
def llvm_to_mlir(llvm_ir: str, ir: Any) -> Any:
    """A text of LLVM IR (`Compiled.llvm_ir`, `tileiras --emit=llvm`) as an `ir.Module` of the llvm dialect.

    `ir` and the context are those of `to_mlir`. Debug information is left out. Raises LibtileError for what is no LLVM
    IR, and for what the llvm dialect, or this, has no op for.
    """
    import llvmlite.binding as llvm

    context = current_context(ir)
    try:
        module = llvm.parse_assembly(llvm_ir, llvm.create_context())
    except (RuntimeError, UnicodeError) as error:
        raise LibtileError(f"LLVM refuses the text: {message_of(error)}") from None
    text = _Writer(module).text()
    try:
        return ir.Module.parse(text, context)
    except errors_of(ir) as error:
        raise LibtileError(f"MLIR refuses the module: {message_of(error)}") from None


class _Writer:
    """Writes one module in the generic form."""

    def __init__(self, module: Any):
        self._module = module
        self._lines: list[str] = []
        self._declared: dict[str, str] = {}
        self._names: dict[int, str] = {}
        self._blocks: dict[str, str] = {}
        self._phis: dict[str, list[Any]] = {}

    def text(self) -> str:
        layout, triple = quote(str(self._module.data_layout)), quote(str(self._module.triple))
        for variable in self._module.global_variables:
            self._global(str(variable))
        for function in self._module.functions:
            if not function.is_declaration:
                self._function(function)
        attributes = f"attributes {{llvm.data_layout = {layout}, llvm.target_triple = {triple}}}"
        return "\n".join([f"module {attributes} {{", *self._declared.values(), *self._lines, "}\n"])

    # -- globals and functions ----------------------------------------------------------------------------------

    def _global(self, text: str) -> None:
        found = re.fullmatch(
            r"@(\S+|\".*?\") = (?:(internal|private|external) )?(?:unnamed_addr )?(?:addrspace\((\d+)\) )?"
            r"(global|constant) (.*?)(?:, align (\d+))?",
            text.strip(),
            re.DOTALL,
        )
        if found is None:
            raise LibtileError(f"libtile.mlir does not read the global '{text.strip()[:80]}'")
        name, linkage, space, kind, value, align = found.groups()
        op, properties, type_ = Reader(value).constant()
        members = [
            f"addr_space = {space or 0} : i32",
            f"global_type = {type_}",
            f"linkage = #llvm.linkage<{linkage or 'external'}>",
            f"sym_name = {_symbol(name)}",
            "visibility_ = 0 : i64",
            *(["constant"] if kind == "constant" else []),
            *([f"alignment = {align} : i64"] if align else []),
        ]
        body = ""
        if op == "llvm.mlir.constant":
            members.append(properties)
        else:
            body = f'%0 = "{op}"(){_properties([properties])} : () -> {type_}\n"llvm.return"(%0) : ({type_}) -> ()\n'
        self._lines.append(f'"llvm.mlir.global"() <{{{", ".join(members)}}}> ({{\n{body}}}) : () -> ()')

    def _function(self, function: Any) -> None:
        head = next(line for line in str(function).splitlines() if line.startswith("define"))
        found = re.match(r"define (?:(internal|private) )?(?:dso_local )?(ptx_kernel )?(.*?) @", head)
        if found is None:
            raise LibtileError(f"libtile.mlir does not read the function '{head[:80]}'")
        linkage, kernel, result = found.groups()
        arguments = list(function.arguments)
        self._names = {_key(argument): f"%a{i}" for i, argument in enumerate(arguments)}
        types = [_type(argument) for argument in arguments]
        blocks = list(function.blocks)
        self._blocks = {_block_name(block): f"^bb{i}" for i, block in enumerate(blocks)}
        self._phis = {_block_name(b): [i for i in b.instructions if i.opcode == "phi"] for b in blocks}
        for number, instruction in enumerate(i for block in blocks for i in block.instructions):
            self._names[_key(instruction)] = f"%v{number}"
        members = [
            f"CConv = #llvm.cconv<{'ptx_kernelcc' if kernel else 'ccc'}>",
            f"function_type = !llvm.func<{_result(Reader(result).type())} ({', '.join(types)})>",
            f"linkage = #llvm.linkage<{linkage or 'external'}>",
            f"sym_name = {quote(str(function.name))}",
            "visibility_ = 0 : i64",
            f"arg_attrs = [{', '.join(_argument_attributes(argument) for argument in arguments)}]",
            f"passthrough = [{', '.join(_passthrough(function))}]",
        ]
        self._lines.append(f'"llvm.func"() <{{{", ".join(members)}}}> ({{')
        for number, block in enumerate(blocks):
            values = arguments if number == 0 else self._phis[_block_name(block)]
            shown = ", ".join(f"{self._names[_key(value)]}: {_type(value)}" for value in values)
            self._lines.append(f"^bb{number}{f'({shown})' if shown else ''}:")
            for instruction in block.instructions:
                if instruction.opcode != "phi":
                    self._instruction(instruction, block)
        self._lines.append(f"}}){' {nvvm.kernel}' if kernel else ''} : () -> ()")

    # -- values -------------------------------------------------------------------------------------------------

    def _value(self, value: Any) -> str:
        """The name of a value; a constant is made in front of its use."""
        name = self._names.get(_key(value))
        if name is not None:
            return name
        kind = value.value_kind.name
        text = f"{value.type} @{_quoted(value.name)}" if kind in ("function", "global_variable") else str(value)
        op, properties, type_ = Reader(text).constant()
        name = f"%c{len(self._lines)}"
        self._lines.append(f'{name} = "{op}"(){_properties([properties])} : () -> {type_}')
        return name

    def _passed(self, block: str, origin: Any) -> list[tuple[str, str]]:
        """What a jump from `origin` gives the arguments of a block: names and types."""
        passed = []
        for phi in self._phis[block]:
            incoming = zip(phi.operands, phi.incoming_blocks)
            value = next(value for value, source in incoming if _block_name(source) == _block_name(origin))
            passed.append((self._value(value), _type(phi)))
        return passed

    # -- instructions -------------------------------------------------------------------------------------------

    def _emit(
        self, op: str, instruction: Any, operands: Sequence[Any], properties: Sequence[str] = (), extra: str = ""
    ) -> None:
        names = [self._value(operand) for operand in operands]
        result = _type(instruction)
        types = ", ".join(_type(operand) for operand in operands)
        target = "" if result == "!llvm.void" else f"{self._names[_key(instruction)]} = "
        results = "()" if result == "!llvm.void" else result
        self._lines.append(
            f'{target}"llvm.{op}"({", ".join(names)}){_properties(properties)}{extra} : ({types}) -> {results}'
        )

    def _instruction(self, i: Any, block: Any) -> None:
        text = str(i).strip()
        for kind in _METADATA.findall(text):
            if kind not in ("dbg", "invariant.load"):
                raise LibtileError(f"libtile.mlir has no metadata '{kind}': {text}")
        body = re.sub(r"^%[^ ]+ = ", "", _METADATA.sub("", text))
        words = body.split()
        operands = list(i.operands)
        match i.opcode:
            case name if name in _PLAIN:
                self._emit(name, i, operands, _flags(words))
            case "icmp" | "fcmp" as name:
                predicates = _INTEGER_PREDICATES if name == "icmp" else _FLOAT_PREDICATES
                number = next(predicates.index(word) for word in words[1:] if word in predicates)
                flags = [] if name == "icmp" else _flags(words)
                self._emit(name, i, operands, [f"predicate = {number} : i64", *flags])
            case "getelementptr":
                given = body.removeprefix("getelementptr ")
                element = Reader(re.sub(r"^((inbounds|nuw|nusw) )*", "", given)).type()
                wraps = sum(bit for word, bit in (("inbounds", 3), ("nusw", 2), ("nuw", 4)) if word in words[1:4])
                dynamic = ", ".join(["-2147483648"] * (len(operands) - 1))
                members = [
                    f"elem_type = {element}",
                    f"rawConstantIndices = array<i32: {dynamic}>",
                    f"noWrapFlags = {wraps} : i32",
                ]
                self._emit("getelementptr", i, operands, members)
            case "load" | "store" as name:
                invariant = ["invariant"] if "!invariant.load" in text else []
                self._emit(name, i, operands, [*_memory(body), *invariant])
            case "atomicrmw":
                kind = words[2] if words[1] == "volatile" else words[1]
                if kind not in _ATOMICS:
                    raise LibtileError(f"libtile.mlir has no atomic '{kind}' of the llvm dialect: {text}")
                members = [f"bin_op = {_ATOMICS.index(kind)} : i64", *_memory(body, "monotonic")]
                self._emit("atomicrmw", i, operands, members)
            case "fence":
                self._emit("fence", i, operands, _memory(body, "acquire"))
            case "alloca":
                (count,) = operands
                element = Reader(body.removeprefix("alloca ")).type()
                self._emit("alloca", i, [count], [f"elem_type = {element}", *_alignment(body)])
            case "extractvalue" | "insertvalue" as name:
                indices = re.search(r"((?:, \d+)+)$", body)
                assert indices is not None  # LLVM prints them
                self._emit(name, i, operands, [f"position = array<i64: {indices[1][2:]}>"])
            case "shufflevector":
                chosen = re.findall(r"i32 (-?\d+|poison)", body.rpartition("<")[2])
                mask = ", ".join(word.replace("poison", "-1") for word in chosen)
                self._emit("shufflevector", i, operands, [f"mask = array<i32: {mask}>"])
            case "call":
                self._call(i, operands, words)
            case "br" | "switch" | "ret":
                self._end(i, operands, body, block)
            case name:
                raise LibtileError(f"libtile.mlir has no op of the llvm dialect for '{name}': {text}")

    def _call(self, i: Any, operands: list[Any], words: Sequence[str]) -> None:
        *arguments, callee = operands
        segments = [f"operandSegmentSizes = array<i32: {len(arguments)}, 0>", "op_bundle_sizes = array<i32>"]
        if callee.value_kind.name == "inline_asm":
            self._assembly(i, arguments, str(callee))
        elif callee.value_kind.name != "function":
            raise LibtileError(f"libtile.mlir has no indirect calls: {str(i).strip()}")
        elif str(callee.name).startswith("llvm.") and not CALLED.fullmatch(callee.name):
            self._emit(
                "call_intrinsic", i, arguments, [f"intrin = {quote(str(callee.name))}", *segments, *_flags(words)]
            )
        else:
            self._declare(self._module.get_function(callee.name), _type(i), [_type(argument) for argument in arguments])
            self._emit("call", i, arguments, [f"callee = {_at(callee.name)}", *segments, *_flags(words)])

    def _declare(self, function: Any, result: str, arguments: Sequence[str]) -> None:
        if not function.is_declaration or function.name in self._declared:
            return
        members = [
            f"function_type = !llvm.func<{_result(result)} ({', '.join(arguments)})>",
            "linkage = #llvm.linkage<external>",
            f"sym_name = {quote(str(function.name))}",
            "visibility_ = 0 : i64",
            f"passthrough = [{', '.join(_passthrough(function))}]",
        ]
        self._declared[function.name] = f'"llvm.func"() <{{{", ".join(members)}}}> ({{}}) : () -> ()'

    def _assembly(self, i: Any, arguments: Sequence[Any], text: str) -> None:
        found = re.fullmatch(r'ptr asm (sideeffect )?(alignstack )?"(.*)", "(.*)"', text, re.DOTALL)
        if found is None:
            raise LibtileError(f"libtile.mlir does not read the assembly '{text}'")
        effects, _, template, constraints = found.groups()
        members = [
            f'asm_string = "{template}"',
            f'constraints = "{constraints}"',
            "tail_call_kind = #llvm.tailcallkind<none>",
            *(["has_side_effects"] if effects else []),
        ]
        convergent = any(b"convergent" in attribute for attribute in i.attributes)
        self._emit("inline_asm", i, arguments, members, f" {{{CONVERGENT}}}" if convergent else "")

    def _end(self, i: Any, operands: Sequence[Any], body: str, block: Any) -> None:
        if i.opcode == "ret":
            names = [self._value(operand) for operand in operands]
            types = ", ".join(map(_type, operands))
            self._lines.append(f'"llvm.return"({", ".join(names)}) : ({types}) -> ()')
            return
        labels = re.findall(r"label %(\"[^\"]*\"|[\w.$-]+)", body)
        targets = [label.strip('"') for label in labels]
        passed = [self._passed(target, block) for target in targets]
        first = [] if len(targets) == 1 and i.opcode == "br" else [(self._value(operands[0]), _type(operands[0]))]
        given = [*first, *(pair for values in passed for pair in values)]
        sizes = ", ".join(str(len(values)) for values in passed)
        op, members = "br", []
        if i.opcode == "switch":
            op = "switch"
            cases = re.findall(r"i\d+ (-?\d+), label", body.partition("[")[2])
            kind = first[0][1]
            if cases:
                members.append(f"case_values = dense<[{', '.join(cases)}]> : vector<{len(cases)}x{kind}>")
            rest = [len(values) for values in passed[1:]]
            members.append(f"case_operand_segments = array<i32{': ' if rest else ''}{', '.join(map(str, rest))}>")
            members.append(f"operandSegmentSizes = array<i32: 1, {len(passed[0])}, {sum(rest)}>")
        elif first:
            op = "cond_br"
            members.append(f"operandSegmentSizes = array<i32: 1, {sizes}>")
        values, types = (", ".join(pair[n] for pair in given) for n in (0, 1))
        blocks = ", ".join(self._blocks[target] for target in targets)
        self._lines.append(f'"llvm.{op}"({values})[{blocks}]{_properties(members)} : ({types}) -> ()')


def _key(value: Any) -> int:
    """What tells LLVM's values apart."""
    return cast(value._ptr, c_void_p).value or 0


def _block_name(block: Any) -> str:
    return str(block.name)


def _type(value: Any) -> str:
    return Reader(str(value.type)).type()


def _result(type_: str) -> str:
    """A function's result, which has its type without the prefix of the dialect where that is void."""
    return "void" if type_ == "!llvm.void" else type_


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[\w.$-]+", name) else quote(name)


def _at(name: str) -> str:
    return "@" + _quoted(name)


def _symbol(name: str) -> str:
    return name if name.startswith('"') else quote(name)


def _properties(members: Sequence[str]) -> str:
    shown = ", ".join(member for member in members if member)
    return f" <{{{shown}}}>" if shown else ""


def _flags(words: Sequence[str]) -> list[str]:
    """Flags of an instruction, which stand between its name and its type."""
    given = words[1:8]
    wraps = [word for word in ("nsw", "nuw") if word in given]
    fast = [word for word in _FAST if word in given]
    named = (("exact", "isExact"), ("disjoint", "isDisjoint"), ("nneg", "nonNeg"))
    return [
        *([f"overflowFlags = #llvm.overflow<{', '.join(wraps)}>"] if wraps else []),
        *([f"fastmathFlags = #llvm.fastmath<{', '.join(fast)}>"] if fast else []),
        *(member for word, member in named if word in given),
    ]


def _alignment(body: str) -> list[str]:
    found = re.search(r", align (\d+)", body)
    return [f"alignment = {found[1]} : i64"] if found else []


def _memory(body: str, ordering: str = "") -> list[str]:
    """Alignment, ordering, scope and volatility of an access."""
    head, _, rest = body.partition(" ")
    scope = re.search(r'syncscope\("([^"]*)"\)', body)
    found = next((word for word in re.findall(r"\b[a-z_]+\b", rest) if word in _ORDERINGS), None)
    atomic = head in ("atomicrmw", "fence") or rest.startswith("atomic ")
    number = _ORDERINGS[found or ordering] if atomic else 0
    return [
        *_alignment(body),
        f"ordering = {number} : i64",
        *([f"syncscope = {quote(scope[1])}"] if scope else []),
        *(["volatile_"] if rest.startswith(("volatile ", "atomic volatile ")) else []),
    ]


def _attributes(value: Any) -> list[str]:
    """The attributes of a function or an argument, one by one."""
    text = b" ".join(value.attributes).decode()
    return re.findall(r'(?:"[^"]*"(?:="[^"]*")?|[\w]+\([^)]*\)|align \d+|\w+)', text)


def _argument_attributes(argument: Any) -> str:
    shown = []
    for attribute in _attributes(argument):
        name, _, rest = attribute.partition(" ")
        if attribute in _ARGUMENT_ATTRIBUTES:
            shown.append(f"llvm.{attribute}")
        elif name == "align":
            shown.append(f"llvm.align = {rest} : i64")
        elif attribute.startswith("byval("):
            shown.append(f"llvm.byval = {Reader(attribute[6:-1]).type()}")
        elif attribute.startswith('"nvvm.'):
            shown.append(attribute.strip('"'))
        else:
            raise LibtileError(f"libtile.mlir has no attribute of arguments '{attribute}'")
    return f"{{{', '.join(shown)}}}"


def _passthrough(function: Any) -> list[str]:
    """The attributes of a function, as the llvm dialect passes them through to LLVM."""
    shown = []
    for attribute in _attributes(function):
        key, equals, value = attribute.partition("=")
        shown.append(f"[{key}, {value}]" if equals else attribute if attribute.startswith('"') else quote(attribute))
    return shown
