"""A headless Chromium that tells what a page asks for, shows and complains of."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import websocket
from machine import without

PATIENCE = 60  # seconds that any single answer may take on a busy machine
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-extensions", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--disable-quic", "--remote-debugging-port=0", "--remote-allow-origins=*"),
)


def found() -> str:
    """Return the path of the browser; skip the test without one."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    without("chromium", "no Chromium here; install it to see the page as a reader does")


class Page:
    """An opened page: its requests, its complaints, and answers to JavaScript expressions."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session
        self.requests: list[str] = []
        self.complaints: list[str] = []

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, session=self._session, heard=self._hear, **parameters)

    def open(self, url: str, width: int, height: int = 900) -> None:
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Page.navigate", url=url)
        self.evaluate(
            "new Promise(done => document.readyState === 'complete' ? done(1)"
            " : addEventListener('load', () => done(1)))"
        )

    def wait(self, expression: str, *, seconds: float = PATIENCE) -> Any:
        """Return an expression's value as soon as it is true; fail with the page's text if not."""
        end = time.monotonic() + seconds
        asked = (
            f"(async () => {{ try {{ const found = await ({expression});"
            " return found instanceof Node ? true : found } catch {} })()"
        )
        while time.monotonic() < end:
            try:
                if found := self.evaluate(asked):
                    return found
            except AssertionError as error:
                if "navigated or closed" not in str(error):  # a reload came in between
                    raise
            time.sleep(0.05)
        text = self.evaluate("document.body?.innerText.slice(0, 3000)")
        raise AssertionError(f"not so in time: {expression}\n{text}\n{self.complaints[-5:]}")

    def click(self, selector: str) -> None:
        """Click in the middle of an element, as a mouse does, once it stands still."""
        where = json.dumps(selector)
        place = self.wait(
            f"new Promise(async done => {{ const hit = document.querySelector({where});"
            " if (!hit) return done(null); hit.scrollIntoView({block: 'center'});"
            " const at = () => { const b = hit.getBoundingClientRect();"
            " return [b.x + b.width / 2, b.y + b.height / 2] };"
            " const before = at(); await new Promise(next => setTimeout(next, 60));"
            " const now = at(); const top = document.elementFromPoint(...now);"
            " done(before.join() === now.join() && top && (hit.contains(top) || top.contains(hit))"
            " ? now : null) })"
        )
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            how = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], **how)

    def press(self, key: str) -> None:
        """Press and release a key; a single character is also typed."""
        typed = {"text": key} if len(key) == 1 else {}
        codes = {"ArrowLeft": 37, "ArrowRight": 39, "Escape": 27, "Enter": 13}
        code = codes.get(key, ord(key[0].upper()))
        how = {"key": key, "windowsVirtualKeyCode": code}
        self.call(
            "Input.dispatchKeyEvent", type="keyDown" if typed else "rawKeyDown", **how, **typed
        )
        self.call("Input.dispatchKeyEvent", type="keyUp", **how)

    def picture(self, path: Path) -> None:
        """Write what is in the window as a PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def evaluate(self, expression: str) -> Any:
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def _hear(self, event: dict[str, Any]) -> None:
        method, told = event["method"], event["params"]
        if method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"][:200])
        elif method == "Log.entryAdded" and told["entry"]["level"] in {"warning", "error"}:
            self.complaints.append(told["entry"]["text"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(told["exceptionDetails"]["text"])
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(f"console.{told['type']}")


class Browser:
    """One browser process with one connection."""

    def __init__(self, address: str) -> None:
        self._socket = websocket.create_connection(address, timeout=PATIENCE)
        self._number = 0

    def call(self, method: str, *, session: str = "", heard: Any = None, **parameters: Any) -> Any:
        self._number += 1
        sent = {"id": self._number, "method": method, "params": parameters}
        self._socket.send(json.dumps(sent | ({"sessionId": session} if session else {})))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == self._number:
                assert "error" not in message, f"{method}: {message['error']}"
                return message["result"]
            if heard is not None and message.get("sessionId") == session:
                heard(message)

    def page(self, path: Path | str, *, width: int, height: int = 900) -> Page:
        """Open a file or address in a window of a size (CSS pixels) and wait until it is loaded."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        page.open(path if isinstance(path, str) else path.resolve().as_uri(), width, height)
        return page

    def close(self) -> None:
        self.call("Browser.close")
        self._socket.close()


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """Start a browser with a profile of its own and stop it in the end."""
    command = [found(), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
    with (profile / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    browser = None
    try:
        browser = Browser(_address(process, profile))
        yield browser
    finally:
        if browser is not None:
            browser.close()
        else:
            process.kill()
        process.wait(PATIENCE)


def _address(process: subprocess.Popen[bytes], profile: Path) -> str:
    for _ in range(PATIENCE * 20):
        if (port := profile / "DevToolsActivePort").is_file() and len(
            told := port.read_text().split()
        ) == 2:
            return f"ws://127.0.0.1:{told[0]}{told[1]}"
        assert process.poll() is None, (profile / "log").read_text(errors="replace")[-2000:]
        time.sleep(0.05)
    raise AssertionError("the browser did not start in time")
