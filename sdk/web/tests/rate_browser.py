"""The rate of decode() in headless Chromium: `rate_browser.py FILE.gbz [TIMES]`, after GBC_WEB=FOLDER of gbz.mjs.

Prints the least of TIMES (default 9) by the clock of the page: all of it, and opening alone.
"""
import http.server
import json
import os
import pathlib
import sys
import threading

FILE = pathlib.Path(sys.argv[1]).resolve()
os.environ["GBC_LARGE"] = str(FILE.parent)
import browser_test  # noqa: E402, it reads the environment

SCRIPT = """
const file = await bytes("/large/NAME"), least = { decode: Infinity, open: Infinity };
let weights = 0;
for (let run = 0; run < TIMES; ++run) {
  const begin = performance.now(), tensors = await gbz.decode(file), end = performance.now();
  least.decode = Math.min(least.decode, end - begin);
  weights = Array.from(tensors.values()).reduce((sum, values) => sum + values.length, 0);
  const before = performance.now();
  (await gbz.open(file)).close();
  least.open = Math.min(least.open, performance.now() - before);
}
return JSON.stringify({ simd: gbz.simd, weights, decode_ms: least.decode, open_ms: least.open });
"""


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), browser_test.Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    origin = f"http://127.0.0.1:{server.server_address[1]}"
    browser = browser_test.browser.Browser(timeout=240, origin=origin)
    try:
        browser.open(origin + "/")
        text = SCRIPT.replace("NAME", FILE.name).replace("TIMES", sys.argv[2] if len(sys.argv) > 2 else "9")
        print(json.dumps(json.loads(browser.run("(async () => {" + browser_test.DIGESTS + text + "})()"))))
    finally:
        browser.close()
        server.shutdown()


if __name__ == "__main__":
    main()
