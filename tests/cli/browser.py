"""A headless Chromium, spoken to through its debugging pipe. Standard library only."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
import unittest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


class Browser:
    """One page. `problems` are errors of scripts, refusals of the page's policy, and requests beyond its file or `origin`."""

    def __init__(self, timeout=90, origin=None):
        self.own = ("file:", "about:", *((origin + "/", "blob:", "data:") if origin else ()))
        program = next(filter(None, map(shutil.which, PROGRAMS)), None)
        if not program:
            raise unittest.SkipTest("no browser is installed; apt-get install chromium")
        self.timeout, self.number, self.buffer, self.problems, self.replies = timeout, 0, b"", [], {}
        self.profile = tempfile.mkdtemp(prefix="gbc-browser-")
        down, self.to = os.pipe()
        self.back, up = os.pipe()

        def connect():  # the browser reads at 3 and writes at 4
            spare_down, spare_up = os.dup(down), os.dup(up)
            os.dup2(spare_down, 3)
            os.dup2(spare_up, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--remote-debugging-pipe", f"--user-data-dir={self.profile}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False,
            preexec_fn=connect)
        os.close(down)
        os.close(up)
        page = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"][0]
        self.session = None
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def close(self):
        os.close(self.to)  # the browser ends with its pipe
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.back)
        shutil.rmtree(self.profile, ignore_errors=True)

    def _read(self, end):
        while b"\0" not in self.buffer:
            if time.monotonic() > end:
                raise TimeoutError("the browser does not answer")
            if select.select([self.back], [], [], 1)[0]:
                piece = os.read(self.back, 1 << 20)
                if not piece:
                    raise ConnectionError("the browser ended")
                self.buffer += piece
        message, self.buffer = self.buffer.split(b"\0", 1)
        self._take(json.loads(message))

    def _take(self, message):
        method, given = message.get("method", ""), message.get("params", {})
        if "id" in message:
            self.replies[message["id"]] = message
        elif method == "Runtime.exceptionThrown":
            self.problems.append(given["exceptionDetails"].get("exception", {}).get("description", "an exception"))
        elif method == "Log.entryAdded" and given["entry"]["level"] == "error":
            self.problems.append(given["entry"]["text"])
        elif method == "Network.requestWillBeSent" and not given["request"]["url"].startswith(self.own):
            self.problems.append("a request of " + given["request"]["url"])

    def call(self, method, **given):
        self.number += 1
        message = {"id": self.number, "method": method, "params": given}
        if getattr(self, "session", None):
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + self.timeout
        while self.number not in self.replies:
            self._read(end)
        reply = self.replies.pop(self.number)
        if "error" in reply:
            raise RuntimeError(reply["error"]["message"])
        return reply["result"]

    def run(self, script):
        """The value of an expression in the page."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise RuntimeError(done["exceptionDetails"]["exception"].get("description", script))
        return done["result"].get("value")

    def open(self, path, width=1200, height=900, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        url = path if path.startswith("http:") else "file://" + os.path.abspath(path)
        self.call("Page.navigate", url=url)
        end = time.monotonic() + self.timeout
        while self.run("location.protocol + document.readyState") != url.split("/")[0] + "complete":
            if time.monotonic() > end:
                raise TimeoutError("the page does not load")
            time.sleep(0.05)

    def screenshot(self, path):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        done = self.call("Page.captureScreenshot", captureBeyondViewport=True,
                         clip={"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1})
        with open(path, "wb") as file:
            file.write(base64.b64decode(done["data"]))
