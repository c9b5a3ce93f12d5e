# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The backend in this process, whose parts are loaded when there is work."""

from __future__ import annotations

from libtile.backend.work import Made, Work


def here(work: Work) -> Made:
    """Do the work in this process; see `libtile.backend.build.build`."""
    from libtile.backend.build import build

    return build(work)
