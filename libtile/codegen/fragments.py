# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fragments of LLVM IR that a program brings along: each is the body of a function of the module's own."""

from __future__ import annotations

from collections.abc import Sequence

from libtile.codegen.builder import KernelBuilder, Value
from libtile.codegen.llvm_types import VOID, LlvmType, StructType
from libtile.codegen.symbols import own_name


def definition(body: str, operands: Sequence[LlvmType], results: Sequence[LlvmType]) -> tuple[str, str]:
    """(name, text) of the function of a fragment. Its parameters have no names: they are `%0`, `%1`, ..."""
    import hashlib  # which loads OpenSSL

    taken = ", ".join(type_.text for type_ in operands)
    digest = hashlib.sha256(f"{taken} {result_type(results)} {body}".encode()).hexdigest()[:16]
    name = own_name("fragment", digest)
    return name, f"define internal {result_type(results)} @{name}({taken}) alwaysinline {{\n{body}\n}}"


def result_type(results: Sequence[LlvmType]) -> LlvmType:
    """What a fragment returns: nothing, its result, or a struct of several."""
    return VOID if not results else results[0] if len(results) == 1 else StructType(tuple(results))


def inject(b: KernelBuilder, body: str, operands: Sequence[Value], results: Sequence[LlvmType]) -> list[Value]:
    """Run a fragment here; returns its results."""
    name = b.add_function(*definition(body, [v.type for v in operands], results))
    type_ = result_type(results)
    text = f"call {type_} {name}({', '.join(v.typed for v in operands)})"
    if not results:
        b.line(text)
        return []
    made = b.emit(type_, text)
    return [made] if len(results) == 1 else [b.extract(made, n, each) for n, each in enumerate(results)]
