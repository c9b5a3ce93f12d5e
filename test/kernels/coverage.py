# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which operations the corpus reaches, and which the frontend cannot write at all."""

from __future__ import annotations

from collections.abc import Iterable

from cuda.tile import _bytecode

from kernels import corpus
from kernels.model import Kernel
from libtile import bytecode
from libtile.spec import default_spec

#: Operations that no Python source makes the frontend (cuda-tile 1.7.0) write: they have to be tested from text.
NOT_EMITTED: dict[str, str] = {
    "alloca": "no memory of a tile block's own in the language",
    "entry": "entry points are records of the function table",
    "get_tensor_shape": "sizes are the entry's parameters, and used as such",
    "global": "globals are records of the global section",
    "memory_fence_alias_tko": "no fence in the language",
    "module": "the file is the module",
    "mulhii": "no function for the upper half of a product",
    "multimem_load_reduce_view_tko": "no multi-device arrays in the language",
    "multimem_reduce_view_tko": "no multi-device arrays in the language",
    "multimem_store_view_tko": "no multi-device arrays in the language",
    "preview$call": "needs a preview package that is not published",
    "ptr_to_int": "no addresses as numbers in the language",
    "ptr_to_ptr": "no pointers as values in the language",
}
#: What only files of old versions have.
OLD_VERSIONS_ONLY = {
    "get_global": "printing took a lock in a global variable until there were tokens on print",
}


def declared() -> set[str]:
    """Every operation of the dialect, but those for the open test-suite."""
    return {op.name for op in default_spec().ops.values() if not op.name.startswith("testing$")}


def writer_functions() -> list[str]:
    """The names of the frontend's encoders, one for each operation that it knows."""
    return [name for name in dir(_bytecode) if name.startswith("encode_") and name.endswith("Op")]


def emitted(kernels: Iterable[Kernel], version: str) -> set[str]:
    """The operations in the bytecode of these kernels in a version."""
    return {
        inner.name
        for kernel in kernels
        if version in kernel.versions
        for function in bytecode.read(corpus.export(kernel, version)).functions
        for operation in function.body.operations
        for inner in operation.walk()
    }
