"""Chromium without a screen, driven by the W3C's WebDriver protocol: JSON over HTTP, no package."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

DRIVER, CHROMIUM = (shutil.which(name) for name in ("chromedriver", "chromium"))
ABSENT = "no Chromium here: apt-get install chromium chromium-driver"
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    """One browser window of a given size."""

    def __init__(self, *options: str, width: int = 1400, height: int = 1000) -> None:
        self._driver = subprocess.Popen(
            [str(DRIVER), "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            self._base = f"http://127.0.0.1:{self._port()}"
            arguments = [
                "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                "--host-resolver-rules=MAP * ~NOTFOUND", f"--window-size={width},{height}",
                *options,
            ]  # fmt: skip
            wanted = {
                "goog:chromeOptions": {"binary": CHROMIUM, "args": arguments},
                "goog:loggingPrefs": {"browser": "ALL"},
            }
            capabilities = {"capabilities": {"alwaysMatch": wanted}}
            session = self._call("POST", "/session", capabilities)
            self._base += f"/session/{session['sessionId']}"
        except BaseException:
            self._driver.kill()
            raise

    def _port(self) -> int:
        assert self._driver.stdout is not None
        for line in self._driver.stdout:
            if "started successfully on port" in line:
                return int(line.rstrip().rstrip(".").rsplit(" ", 1)[1])
        raise OSError("chromedriver did not start")

    def _call(self, method: str, path: str, content: Any = None) -> Any:
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(self._base + path, data, method=method)
        # The driver is on this machine: no proxy.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from error

    def open(self, path: Path) -> None:
        """Opens a file, and waits until it is loaded."""
        self._call("POST", "/url", {"url": path.resolve().as_uri()})

    def resize(self, width: int, height: int = 900) -> None:
        """Gives the page another size, also one that is narrower than any window."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        command = {"cmd": "Emulation.setDeviceMetricsOverride", "params": size}
        self._call("POST", "/goog/cdp/execute", command)

    def run(self, script: str, *arguments: Any) -> Any:
        """The value that a function body in JavaScript returns."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def _find(self, selector: str) -> str:
        query = {"using": "css selector", "value": selector}
        return self._call("POST", "/element", query)[_ELEMENT]

    def click(self, selector: str) -> None:
        """Clicks as a user would: elements that are hidden or covered cannot be clicked."""
        self._call("POST", f"/element/{self._find(selector)}/click", {})

    def press(self, *keys: str) -> None:
        """Presses and releases keys, one after the other."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._act({"type": "key", "id": "keyboard", "actions": actions})

    def move(self, x: float, y: float) -> None:
        """Moves the pointer to a place in the window."""
        motion = {"type": "pointerMove", "x": round(x), "y": round(y), "duration": 0}
        self._act({"type": "pointer", "id": "mouse", "actions": [motion]})

    def _act(self, source: dict[str, Any]) -> None:
        self._call("POST", "/actions", {"actions": [source]})

    def screenshot(self) -> bytes:
        """The window as a PNG."""
        return base64.b64decode(self._call("GET", "/screenshot"))

    def log(self) -> list[dict[str, Any]]:
        """Messages of the console since the last call."""
        return self._call("POST", "/se/log", {"type": "browser"})

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._call("DELETE", "")
        finally:
            self._driver.terminate()
            self._driver.wait()
            if self._driver.stdout is not None:
                self._driver.stdout.close()
