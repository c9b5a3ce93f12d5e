# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A headless Chromium that shows a page: its DevTools protocol by a pipe, messages of JSON that end in a NUL."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patience import PATIENCE

TIMEOUT = 120.0


def chromium() -> str:
    """The browser's path; skips the test where there is none."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("needs Chromium (Debian: apt install chromium)")
    return found


class Page:
    """A page in the browser."""

    def __init__(self, out: int, back: int):
        self.out, self.back = out, back
        self.buffer = b""
        self.number = 0
        self.session = ""

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol; its result."""
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            got = self._message()
            if got.get("id") == self.number:
                assert "error" not in got, got
                return dict(got["result"])

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            more = os.read(self.back, 1 << 16)
            assert more, "the browser has gone"
            self.buffer += more
        first, _, self.buffer = self.buffer.partition(b"\0")
        return dict(json.loads(first))

    def value(self, script: str) -> Any:
        """What an expression of JavaScript gives."""
        result = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def key(self, name: str) -> None:
        """Press a key where the focus is."""
        text = {"text": name} if len(name) == 1 else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", key=name, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=name)

    def click(self, selector: str) -> None:
        """Click in the middle of the first element that a selector finds."""
        x, y = self.value(
            f"(() => {{ const b = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
            " return [b.left + Math.min(b.width, 200) / 2, b.top + b.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot")["data"]))

    def dark(self, on: bool) -> None:
        features = [{"name": "prefers-color-scheme", "value": "dark" if on else "light"}]
        self.send("Emulation.setEmulatedMedia", features=features)


@contextlib.contextmanager
def opened(path: Path, folder: Path, size: tuple[int, int] = (1600, 900)) -> Iterator[Page]:
    """A page of a file, loaded; `folder` is for the browser's own files."""
    to_read, out = os.pipe()
    back, to_write = os.pipe()

    def connect() -> None:
        # The browser reads from descriptor 3 and writes to 4, which pipes of this process may have by chance.
        keep = os.dup(to_read), os.dup(to_write)
        os.dup2(keep[0], 3)
        os.dup2(keep[1], 4)

    options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run",
               f"--user-data-dir={folder}", f"--window-size={size[0]},{size[1]}", "about:blank"]  # fmt: skip
    process = subprocess.Popen([chromium(), *options], preexec_fn=connect, close_fds=False,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        os.close(to_read)
        os.close(to_write)
        page = Page(out, back)
        target = next(t for t in page.send("Target.getTargets")["targetInfos"] if t["type"] == "page")
        page.session = page.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        page.send("Page.enable")
        page.send("Page.navigate", url=path.as_uri())
        for _ in range(600):
            if page.value("document.readyState === 'complete' && document.querySelectorAll('section').length > 0"):
                break
            page.value("new Promise((done) => setTimeout(done, 50))")
        yield page
    finally:
        process.kill()
        process.wait(PATIENCE)
        os.close(out)
        os.close(back)
