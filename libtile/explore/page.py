# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One HTML file that shows a record: no network, no script but its own."""

from __future__ import annotations

import json
from dataclasses import asdict
from html import escape
from importlib.resources import files
from typing import Any

from libtile.explore.listings import Listing
from libtile.explore.record import Compilation, KernelFacts, Record
from libtile.support.remarks import Remark
from libtile.support.signatures import checked


@checked
def page(record: Record) -> str:
    """The page of a record, as text of one HTML file."""
    parts = files("libtile.explore") / "page"
    text = (parts / "page.html").read_text(encoding="utf-8")
    # `<` only as an escape, so that nothing in a kernel ends the script around it.
    data = json.dumps(_data(record), separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    for name in ("page.css", "page.js"):
        text = text.replace(f"@{name}@", (parts / name).read_text(encoding="utf-8"))
    return text.replace("@title@", escape(record.name)).replace("@data@", data)


def _data(record: Record) -> dict[str, Any]:
    return {
        "name": record.name,
        "tileIr": _listing(record.tile_ir),
        "sources": [asdict(source) for source in record.sources],
        "places": {op: (p.source, p.line, p.column) for op, p in record.places.items()},
        "layouts": {layout.name: {"bases": layout.bases, "shape": layout.shape} for layout in record.layouts},
        "compilations": [_compilation(c) for c in record.compilations],
    }


def _listing(listing: Listing) -> dict[str, Any]:
    return {"lines": listing.lines, "ops": listing.ops, "note": listing.note}


def _compilation(made: Compilation) -> dict[str, Any]:
    return {
        "title": made.title,
        "listings": {name: _listing(listing) for name, listing in made.listings.items()},
        "kernels": [_kernel(kernel) for kernel in made.kernels],
        "remarks": [_remark(remark) for remark in made.remarks],
    }


def _kernel(kernel: KernelFacts) -> dict[str, Any]:
    agents = kernel.timeline.picture() if kernel.timeline is not None else ""
    shown = asdict(kernel) | {"limit": kernel.limit, "timeline": agents}
    del shown["local"]
    return shown


def _remark(remark: Remark) -> dict[str, Any]:
    place = remark.location
    return {
        "kind": remark.kind.value,
        "name": remark.name,
        "message": remark.message,
        "kernel": remark.function,
        "file": place.filename if place else "",
        "line": place.line if place else 0,
        "column": place.column if place else 0,
        "arguments": [f"{name}: {value}" for name, value in remark.arguments],
    }
