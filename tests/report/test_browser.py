"""The verdict page in a real browser: hostile names, messages and data run nothing there and ask for nothing."""

from __future__ import annotations

import functools
import http.server
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

from porter.report.html import verdict_page
from porter.validate.comparing.verdict import Check, Verdict

BROWSER = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), "")
QUIET = (
    "--headless --no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync "
    "--disable-default-apps --no-first-run --enable-logging=stderr --virtual-time-budget=3000 --dump-dom "
    "--proxy-bypass-list=<-loopback>"
).split()
HOSTILE = [
    "</title><script>document.title='ran';throw new Error('ran')</script>",
    "<img src=http://evil.test/a.png onerror=\"console.error('ran')\">",
    "'\"><svg/onload=fetch('http://evil.test/b')>",
    "</style><link rel=stylesheet href=http://evil.test/c.css>",
    "--><iframe src='javascript:console.error(1)'></iframe>",
    "<base href=http://evil.test/><meta http-equiv=refresh content='0;url=http://evil.test/d'>",
    "&lt;script&gt;&#60;script>&quot;\x1b]0;ran\x07\u202e\u2028\x00\ud800",
    "]]></svg><style>@import url(http://evil.test/e.css);*{background:url(http://evil.test/f)}</style>",
    "{{7*7}}${7*7}`${fetch('http://evil.test/g')}`",
]

pytestmark = pytest.mark.skipif(not BROWSER, reason="no Chromium here: apt-get install chromium")


@pytest.fixture
def asked() -> Iterator[tuple[int, list[str]]]:
    """The port of a proxy that answers nothing, and what it was asked for."""
    found: list[str] = []

    class Proxy(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            found.append(f"{self.command} {self.path}")
            self.send_error(404)

        do_GET = do_POST = do_HEAD = do_CONNECT = do_OPTIONS = answer

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        threading.Thread(target=functools.partial(server.serve_forever, 0.05), daemon=True).start()
        yield server.server_address[1], found
        server.shutdown()


def opened(page: str, folder: Path, port: int) -> tuple[str, list[str]]:
    """What the browser makes of a page, and what its console says."""
    file = folder / "page.html"
    file.write_bytes(page.encode("utf-8", "surrogatepass"))
    words = [BROWSER, *QUIET, f"--user-data-dir={folder / 'profile'}", f"--proxy-server=http://127.0.0.1:{port}"]
    done = subprocess.run([*words, file.as_uri()], capture_output=True, text=True, errors="replace", timeout=120)
    assert "</html>" in done.stdout, done.stderr[-2000:]
    return done.stdout, re.findall(r"CONSOLE\S* (.*)", done.stderr)


def hostile_verdict() -> Verdict:
    losses = (3.0, float("nan"), float("inf"), 1e300, -1.0, 0.0)
    checks = [
        Check(text, "differs" if number % 2 else "equal", text, 1e-5, float("nan"), number, text)
        for number, text in enumerate([*HOSTILE, "loss of every step"])
    ]
    return Verdict(
        source=f"{HOSTILE[0]}.py",
        port=f"{HOSTILE[1]}_tunix.py",
        checks=tuple(checks),
        notes=tuple(HOSTILE),
        source_losses=losses,
        port_losses=losses[::-1],
        meshes=tuple((text, losses) for text in HOSTILE),
        stood_in=tuple(HOSTILE),
        not_compared=tuple(HOSTILE),
        output="\n".join(HOSTILE),
    )


def test_a_hostile_verdict_runs_nothing_and_asks_for_nothing(tmp_path: Path, asked: tuple[int, list[str]]) -> None:
    port, requests = asked
    dom, console = opened(verdict_page(hostile_verdict()), tmp_path, port)
    assert console == []
    assert [line for line in requests if "evil.test" in line or "127.0.0.1" in line] == []
    assert not re.search(r"<(?:script|img|iframe|link|base|object|embed|form)\b|<[^>]*\son\w+=", dom)
    title = re.search(r"<title>(.*?)</title>", dom, re.DOTALL)
    assert title is not None and unescape(title[1]).startswith(HOSTILE[0])
    assert not re.search("[\x00-\x08\x1b\u202e\u2028]", dom)


def test_a_page_that_would_is_seen(tmp_path: Path, asked: tuple[int, list[str]]) -> None:
    """The test above would see a script, an error and a request."""
    port, requests = asked
    dom, console = opened(f"<!doctype html><html><body>{HOSTILE[0]}{HOSTILE[1]}</body></html>", tmp_path, port)
    assert console and "<script" in dom
    assert [line for line in requests if "evil.test" in line]
