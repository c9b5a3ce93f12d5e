# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The verifiers that ops of xDSL's dialects have, run on ops whose strings may be any bytes.

xDSL prints UTF-8 only, and fails on a string that is not where its message would name one. The check is made again then
with placeholders in such strings, and what it says is put right.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

NOT_UTF8 = "breaks a rule of its dialect, whose message would name a string that is not UTF-8"
"""Said where the string is in an attribute that nobody here can look into."""

# A byte that is no UTF-8 is a lone surrogate (PEP 383); its placeholder is a character for private use.
_PLACEHOLDERS = {0xDC00 + byte: chr(0xF700 + byte) for byte in range(0x80, 0x100)}
_PRINTED = {
    "".join(f"\\{part:02X}" for part in placeholder.encode()): f"\\{surrogate - 0xDC00:02X}"
    for surrogate, placeholder in _PLACEHOLDERS.items()
}
_MEANT = {ord(placeholder): chr(surrogate) for surrogate, placeholder in _PLACEHOLDERS.items()}


def broken_rule(op: Operation) -> str | None:
    """What the op's own verifier says is wrong; None for nothing."""
    try:
        op.verify_()
    except VerifyException as problem:
        return str(problem)
    except UnicodeEncodeError:
        return _with_placeholders(op)
    return None


def _with_placeholders(op: Operation) -> str:
    attributes, properties = op.attributes, op.properties
    op.attributes = {name: _replaced(value) for name, value in attributes.items()}
    op.properties = {name: _replaced(value) for name, value in properties.items()}
    try:
        op.verify_()
    except VerifyException as problem:
        said = str(problem)
        for printed, meant in _PRINTED.items():
            said = said.replace(printed, meant)
        return said.translate(_MEANT)
    except UnicodeEncodeError:
        return NOT_UTF8
    finally:
        op.attributes, op.properties = attributes, properties
    return NOT_UTF8


def _replaced(attribute: Attribute) -> Attribute:
    if isinstance(attribute, StringAttr):
        return StringAttr(attribute.data.translate(_PLACEHOLDERS))
    if isinstance(attribute, ArrayAttr):
        return ArrayAttr([_replaced(element) for element in attribute.data])
    if isinstance(attribute, DictionaryAttr):
        return DictionaryAttr({name: _replaced(value) for name, value in attribute.data.items()})
    return attribute
