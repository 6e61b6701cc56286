"""Chromium without a window, by the DevTools protocol over two pipes: no driver and no library."""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time

import programs

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def find():
    """The path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    """One page.  Errors of its script and of the protocol are failures."""

    def __init__(self, program):
        self.profile = tempfile.TemporaryDirectory(prefix="sluice-browser-", ignore_cleanup_errors=True)
        commands, self.out = os.pipe()
        self.into, answers = os.pipe()
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" 3<&{commands} 4>&{answers}', "sh", program, "--headless=new", "--no-sandbox",
             "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
             "--disable-background-networking", f"--user-data-dir={self.profile.name}", "--remote-debugging-pipe",
             "about:blank"],
            pass_fds=[commands, answers], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(commands)
        os.close(answers)
        self.data, self.count, self.session, self.errors = b"", 0, None, []
        while not (pages := [one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page"]):
            time.sleep(0.05)
        self.session = self.call("Target.attachToTarget", targetId=pages[0]["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        rest = memoryview(json.dumps(message).encode() + b"\0")
        while rest:
            rest = rest[os.write(self.out, rest):]
        while True:
            answer = self._read()
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            if answer.get("method") == "Runtime.exceptionThrown":
                self.errors.append(answer["params"]["exceptionDetails"])
            if answer.get("method") == "Log.entryAdded" and answer["params"]["entry"]["level"] == "error":
                self.errors.append(answer["params"]["entry"])

    def _read(self):
        while b"\0" not in self.data:
            more = os.read(self.into, 1 << 20)
            if not more:
                raise AssertionError("the browser has ended")
            self.data += more
        line, _, self.data = self.data.partition(b"\0")
        return json.loads(line)

    def run(self, script):
        """The value of an expression."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, script):
        """Until an expression is true; its value."""
        until = time.monotonic() + programs.TIMEOUT_S
        while not (value := self.run(script)):
            if time.monotonic() > until:
                raise AssertionError(f"{script} is never true; the page: {self.run('document.body.innerText')}")
            time.sleep(0.05)
        return value

    def open(self, url):
        self.call("Page.navigate", url=url)

    def look(self, width, scheme):
        """The window's width in CSS pixels, and "light" or "dark"."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1,
                  mobile=width < 600)
        self.call("Emulation.setScrollbarsHidden", hidden=True)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path):
        """The whole page as a PNG file."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def close(self):
        self.session = None
        try:
            self.call("Browser.close")
        except (AssertionError, OSError):
            pass
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.out)
        os.close(self.into)
        self.profile.cleanup()
