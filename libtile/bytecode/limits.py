# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bounds on what a file may ask of the reader. Counts are bounded by the bytes that are left; these bound the rest."""

VARINT_BYTES = 10
"""Longest varint: 64 bits in groups of 7."""

REGION_DEPTH = 96
"""Nesting of regions in a function body."""

ATTRIBUTE_DEPTH = 32
"""Nesting of arrays and dictionaries in an attribute."""

TYPE_DEPTH = 16
"""Nesting of types: a function of tiles of pointers needs 4."""

DEBUG_DEPTH = 512
"""Length of a chain of debug scopes or call sites."""

FILE_BYTES = 1 << 32
"""Offsets inside the tables are 32 bits wide, so that no longer file can be addressed."""

ALIGNMENT = 1 << 16
"""Largest alignment of a section; both known writers use 8 at most."""

WARNINGS = 100
"""Oddities of one file that are listed."""

REPR_DEPTH = 4
"""Nesting that the `repr` of a type or a debug record shows: shared parts would make it exponentially long."""
