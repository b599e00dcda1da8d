"""A real browser without a window, driven through its debugging pipe."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

RESPONSES_MAX = 10_000
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


def browser_path() -> str | None:
    """Return where a browser is installed, or None."""
    return next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
    )


@dataclass(frozen=True)
class Shown:
    """What came of opening a page."""

    title: str
    text: str
    width_pixels: int
    """How wide the content is; more than the window's width means that the page scrolls sideways."""
    picture: bytes
    complaints: list[str] = field(default_factory=list)
    """Whatever the browser wrote to its console, and what could not be loaded."""


class Browser:
    """One tab."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to_browser = os.fdopen(to_browser, "wb", buffering=0)
        self._from_browser = os.fdopen(from_browser, "rb")
        self._waiting = b""
        self._number = 0
        self._complaints: list[str] = []
        self._seen: set[str] = set()
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable", self._session)

    def open(self, address: str, *, width: int = 1200, height: int = 900, is_dark: bool = False) -> Shown:
        """Open a page in a window of that size, wait until it is loaded, and look at it."""
        self._complaints.clear()
        self._seen.clear()
        self._call(
            "Emulation.setDeviceMetricsOverride",
            self._session,
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self._call("Emulation.setEmulatedMedia", self._session, features=[scheme])
        self._call("Page.navigate", self._session, url=address)
        return self._loaded()

    def press(self, selector: str) -> Shown:
        """Press what a CSS selector names, wait until the page that follows is loaded, and look at it."""
        self._complaints.clear()
        self._seen.clear()
        self._value(f"document.querySelector({json.dumps(selector)}).click()")
        return self._loaded()

    def run(self, script: str, until: str) -> Shown:
        """Run a script on the page, wait until an expression holds there, and look at the page."""
        self._complaints.clear()
        self._value(script)
        wait = f"new Promise(done => {{ const check = () => ({until}) ? done() : setTimeout(check, 10); check(); }})"
        self._call("Runtime.evaluate", self._session, expression=wait, awaitPromise=True)
        return self._look()

    def _loaded(self) -> Shown:
        self._wait_for("Page.loadEventFired")
        return self._look()

    def _look(self) -> Shown:
        picture = self._call("Page.captureScreenshot", self._session, format="png", captureBeyondViewport=True)["data"]
        return Shown(
            self._value("document.title"),
            self._value("document.body.innerText"),
            self._value("document.documentElement.scrollWidth"),
            base64.b64decode(picture),
            [*self._complaints],
        )

    def close(self) -> None:
        """End the browser."""
        self._call("Browser.close")
        self._to_browser.close()
        self._from_browser.close()

    def _value(self, expression: str) -> Any:
        return self._call("Runtime.evaluate", self._session, expression=expression, returnByValue=True)["result"].get(
            "value"
        )

    def _call(self, method: str, session: str | None = None, **parameters: Any) -> Any:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        self._to_browser.write(json.dumps(message).encode() + b"\0")
        for _ in range(RESPONSES_MAX):
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
        raise AssertionError(f"no answer to {method}")

    def _wait_for(self, event: str) -> None:
        for _ in range(RESPONSES_MAX):
            if event in self._seen:
                return
            self._next()
        raise AssertionError(f"{event} did not happen")

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._waiting:
            read = os.read(self._from_browser.fileno(), 1 << 20)
            assert read, "the browser ended"
            self._waiting += read
        data, _, self._waiting = self._waiting.partition(b"\0")
        message: dict[str, Any] = json.loads(data)
        method, parameters = message.get("method", ""), message.get("params", {})
        self._seen.add(method)
        if method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
            self._complaints.append(json.dumps(parameters))
        elif method == "Log.entryAdded":
            self._complaints.append(parameters["entry"]["text"])
        elif method == "Network.loadingFailed":
            self._complaints.append(f"not loaded: {parameters['errorText']}")
        return message


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Start the browser with an empty profile, and end it."""
    path = browser_path()
    assert path is not None
    command_read, command_write = os.pipe()
    answer_read, answer_write = os.pipe()

    def as_three_and_four() -> None:
        # Duplicated out of the way first, since either may already have the other's number.
        reading, writing = os.dup(command_read), os.dup(answer_write)
        os.dup2(reading, 3)
        os.dup2(writing, 4)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [path, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=as_three_and_four,
        )
        os.close(command_read)
        os.close(answer_write)
        try:
            browser = Browser(command_write, answer_read)
            try:
                yield browser
            finally:
                browser.close()
        finally:
            process.terminate()
            process.wait()
