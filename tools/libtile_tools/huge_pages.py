# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The C library's memory in pages of 2 MiB, in the process of a tool that compiles.

A small compilation touches 14,000 pages of 4 KiB that it has not touched before. Each is a trap into the kernel, all of
them together a fifth of its processor time in a virtual machine. Linux takes large pages for memory that somebody asks
them for, and glibc's allocator takes its memory in pieces as large as it is told: what LLVM asks for comes from there,
objects of Python's of more than 512 bytes, which is code for the most part, and then the arenas, in which Python has
its smaller objects. (glibc does this by itself where the environment says so before a process begins, which is how
ptxas gets it: `libtile.backend.ptxas`.)
"""

from __future__ import annotations

import os
import sys

_SETTINGS = "/sys/kernel/mm/transparent_hugepage"
_PAGE = 2 << 20
REGION = 64 << 20
"""How much is reserved; what a compilation needs beyond is in small pages. Memory is only what is touched."""

# Parameters, by the headers of glibc and Linux.
_M_TOP_PAD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -2, -3, -8
_MADV_HUGEPAGE = 14
_PYMEM_DOMAIN_RAW = 0


def use() -> bool:
    """From here on, what the C library gives comes from a region of large pages, as long as it lasts. False where that
    cannot be: another C library, a kernel that has no large pages for who asks, limits of memory."""
    if not _has_huge_pages():
        return False
    from ctypes import CDLL, c_int, c_size_t, c_ssize_t, c_void_p

    c = CDLL(None)
    c.sbrk.restype, c.sbrk.argtypes = c_void_p, [c_ssize_t]
    c.malloc.restype, c.malloc.argtypes = c_void_p, [c_size_t]
    c.free.restype, c.free.argtypes = None, [c_void_p]
    c.madvise.argtypes = [c_void_p, c_size_t, c_int]

    before = c.sbrk(0)
    c.mallopt(_M_MMAP_THRESHOLD, 2 * _PAGE)  # below it the heap is used, above it a mapping for each piece
    c.mallopt(_M_TOP_PAD, REGION)
    c.mallopt(_M_ARENA_MAX, 1)  # threads use the heap as well
    c.free(c.malloc(_PAGE))  # which makes it grow
    start, end = -(-before // _PAGE) * _PAGE, c.sbrk(0)
    if end - start < REGION // 2 or c.madvise(start, end - start, _MADV_HUGEPAGE) != 0:
        return False
    _take_arenas_from_there()
    return True


def _take_arenas_from_there() -> None:
    """Have Python take its arenas from the C library, by the functions that it calls for larger objects.

    Frames of calls are in pieces that Python takes and gives back by the functions for arenas as well. The first thread
    has one such piece already, which Python gives back when it ends, if it does so in its usual way: so whoever has
    given it is in place again then. (To that one, what comes from the C library is no memory of its, and stays.)
    """
    if sys.implementation.name != "cpython":
        return
    import atexit
    from ctypes import byref, c_void_p, pythonapi

    objects, arenas, before = (c_void_p * 5)(), (c_void_p * 3)(), (c_void_p * 3)()
    pythonapi.PyMem_GetAllocator(_PYMEM_DOMAIN_RAW, byref(objects))  # a context, malloc, calloc, realloc, and free
    pythonapi.PyObject_GetArenaAllocator(byref(before))
    arenas[0], arenas[1], arenas[2] = objects[0], objects[1], objects[4]  # a context, what gives, what takes back
    pythonapi.PyObject_SetArenaAllocator(byref(arenas))
    atexit.register(pythonapi.PyObject_SetArenaAllocator, byref(before))


def _has_huge_pages() -> bool:
    if sys.platform != "linux":
        return False
    try:
        if not (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc"):
            return False
        with open(f"{_SETTINGS}/enabled", encoding="ascii") as file:
            enabled = file.read()
        with open(f"{_SETTINGS}/hpage_pmd_size", encoding="ascii") as file:
            return int(file.read()) == _PAGE and "[never]" not in enabled
    except (OSError, ValueError):
        return False
