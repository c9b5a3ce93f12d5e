# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What can be wrong with a bytecode file or with a request to write one."""

from __future__ import annotations

from libtile.spec import Version
from libtile.support.errors import LibtileError, visible


class BytecodeError(LibtileError):
    """A file is not valid bytecode, or a module cannot be written as asked.

    `message` is the bare diagnostic; `offset` the absolute byte offset in the file; `section` the path of what was
    being read (`Func > function 'kernel' > addi`); `expected` what would have been right. Each may be None.
    """

    def __init__(
        self, message: str, *, offset: int | None = None, section: str | None = None, expected: str | None = None
    ) -> None:
        self.message = message
        self.offset = offset
        self.section = section
        self.expected = expected
        super().__init__(message)

    def __str__(self) -> str:
        where = "" if self.offset is None else f"error at offset {self.offset}"
        if self.section:
            where += f" in {self.section}" if where else f"in {self.section}"
        text = f"{where}: {self.message}" if where else self.message
        return visible(f"{text} (expected {self.expected})" if self.expected else text)


class MalformedError(BytecodeError):
    """The bytes do not follow the format."""


class InvalidError(BytecodeError):
    """The bytes follow the format, and say something that a module cannot hold."""


class UnsupportedVersionError(BytecodeError):
    """The file's version, or something in the file that its version does not have, is not supported."""


class MigrationError(BytecodeError):
    """A module uses a feature that the version asked for does not have.

    `op` is the op's full name (None for a type or the container), `feature` the field, type or value, `required` the
    first version that has it, `target` the version asked for, `location` the op's source position where known;
    `record` is the op in the module that was to be written.
    """

    def __init__(
        self,
        message: str,
        *,
        feature: str,
        target: Version,
        required: Version | None = None,
        op: str | None = None,
        location: str | None = None,
    ) -> None:
        super().__init__(message)
        self.feature = feature
        self.required = required
        self.target = target
        self.op = op
        self.location = location
        self.record: object = None

    def __str__(self) -> str:
        prefix = f"{self.location}: " if self.location else ""
        op = f"'{self.op}': " if self.op else ""
        text = f"{prefix}{op}{self.message}"
        if self.required is not None and str(self.required) not in self.message:
            text += f" (requires bytecode version {self.required}+)"
        return visible(text)


class Fault(Exception):
    """Internal: something wrong at position `p` of the bytes being decoded; readers turn it into a BytecodeError."""

    def __init__(
        self, p: int, message: str, kind: type[BytecodeError] = MalformedError, expected: str | None = None
    ) -> None:
        super().__init__(message)
        self.p = p
        self.message = message
        self.kind = kind
        self.expected = expected
        self.path: list[str] = []
