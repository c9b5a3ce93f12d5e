# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which operations the corpus reaches, and which the frontend cannot write at all.

Operations are named as the frontend's writer names them: `encode_AddFOp` is "AddF".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from cuda.tile import _bytecode

from kernels import corpus
from kernels.model import Kernel

#: Operations that the frontend's writer (cuda-tile 1.7.0) knows and that no Python source makes it write.
#: They have to be tested from text.
NOT_EMITTED: dict[str, str] = {
    "Alloca": "no memory of a tile block's own in the language",
    "Entry": "entry points are records of the function table",
    "Global": "globals are records of the global section",
    "GetTensorShape": "sizes are kept as the entry's parameters",
    "MemoryFenceAliasTko": "no fence in the language",
    "Module": "the file is the module",
    "MulhiI": "no function for the upper half of a product",
    "MultimemLoadReduceViewTko": "no multi-device arrays in the language",
    "MultimemReduceViewTko": "no multi-device arrays in the language",
    "MultimemStoreViewTko": "no multi-device arrays in the language",
    "PreviewCall": "needs a preview package that is not published",
    "PtrToInt": "no pointers as numbers in the language",
    "PtrToPtr": "no pointers as values in the language",
}
#: What the corpus reaches in old versions only.
OLD_VERSIONS_ONLY = {
    "GetGlobal": "printing took a lock in a global variable until there were tokens on print",
}

_NAME = re.compile(r"encode_(\w+?)(Op)?$")


def operations_of_writer() -> set[str]:
    """Every operation that the frontend's writer has a function for."""
    names = (_NAME.match(name) for name in dir(_bytecode) if name.startswith("encode_") and name.endswith("Op"))
    return {match.group(1) for match in names if match}


@contextmanager
def recording() -> Iterator[set[str]]:
    """Inside, the frontend's writer notes the name of each operation that it writes."""
    seen: set[str] = set()
    originals: dict[str, Callable[..., Any]] = {}

    def noting(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def encode(*args: Any, **options: Any) -> Any:
            seen.add(name)
            return original(*args, **options)

        return encode

    for operation in operations_of_writer():
        attribute = f"encode_{operation}Op"
        originals[attribute] = getattr(_bytecode, attribute)
        setattr(_bytecode, attribute, noting(operation, originals[attribute]))
    try:
        yield seen
    finally:
        for attribute, original in originals.items():
            setattr(_bytecode, attribute, original)


def emitted(kernels: Iterable[Kernel], version: str) -> set[str]:
    """The operations that the frontend writes for these kernels in a version, without the cache of exports."""
    with recording() as seen:
        for kernel in kernels:
            if version in kernel.versions:
                corpus.run_frontend(kernel, version, kernel.gpu_code)
    return seen
