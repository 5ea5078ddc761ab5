"""A server that answers as Google Cloud Storage does, as far as gcsfs and tensorstore ask it: objects in memory.

Its mode is "open", "read only" or "closed" (403), or "missing" (404, no such bucket); GET /read%20only sets it, too.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

REFUSED = "tpu@project.iam.gserviceaccount.com does not have storage.objects.create access to the object."
MODES = ("open", "read only", "closed", "missing")
PLACE = re.compile(r"(?:/(upload|download))?/storage/v1/b/([^/]+)(?:/o(?:/(.+))?)?$")


class Bucket:
    """The objects by name, each with its generation, and the server's `mode`."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, int]] = {}
        self.mode = "open"
        self.address = ""

    @property
    def variables(self) -> dict[str, str]:
        """The environment in which gcsfs and tensorstore ask here."""
        return {
            "STORAGE_EMULATOR_HOST": self.address,
            "TENSORSTORE_GCS_HTTP_URL": self.address,
            "GOOGLE_AUTH_TOKEN_FOR_TESTING": "none",
        }

    def put(self, name: str, data: bytes, generation: str | None) -> bool:
        """False where another one wrote it first."""
        now = self.objects.get(name, (b"", 0))[1]
        if generation is not None and int(generation) != now:
            return False
        self.objects[name] = (data, now + 1)
        return True

    def described(self, name: str) -> dict[str, Any]:
        data, generation = self.objects[name]
        when = "2026-11-25T00:00:00.000Z"
        return {
            "kind": "storage#object", "name": name, "bucket": "mine", "size": str(len(data)), "updated": when,
            "timeCreated": when, "generation": str(generation), "metageneration": "1", "etag": str(generation),
        }  # fmt: skip

    def listed(self, prefix: str, delimiter: str | None) -> dict[str, Any]:
        found: dict[str, Any] = {"kind": "storage#objects", "items": [], "prefixes": []}
        for name in sorted(self.objects):
            rest = name.removeprefix(prefix)
            if not name.startswith(prefix):
                continue
            if delimiter and delimiter in rest:
                found["prefixes"].append(prefix + rest.partition(delimiter)[0] + delimiter)
            else:
                found["items"].append(self.described(name))
        return {**found, "prefixes": sorted(set(found["prefixes"]))}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    bucket: Bucket

    def log_message(self, *args: Any) -> None: ...

    def answer(self) -> None:
        asked = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(asked.query).items()}
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        place, mode = PLACE.match(asked.path), self.bucket.mode
        if unquote(asked.path[1:]) in MODES:
            self.bucket.mode = unquote(asked.path[1:])
            self.say(200, {})
            return
        if mode == "closed" or (mode == "read only" and self.command != "GET"):
            self.say(403, REFUSED)
        elif mode == "missing" or place is None:
            self.say(404, "The specified bucket does not exist.")
        elif place[1] == "upload":
            self.upload(query, body)
        else:
            self.object_or_list(unquote(place[3] or ""), asked.path, query, media=place[1] == "download")

    do_GET = do_POST = do_PUT = do_DELETE = answer

    def upload(self, query: dict[str, str], body: bytes) -> None:
        name = query.get("name", "")
        if query["uploadType"] == "resumable":
            name = name or json.loads(body)["name"]
            to = f"http://{self.headers['Host']}/upload/storage/v1/b/mine/o?uploadType=session&name={name}"
            self.say(200, {}, Location=to)
        elif self.bucket.put(name, body, query.get("ifGenerationMatch")):
            self.say(200, self.bucket.described(name))
        else:
            self.say(412, "conditionNotMet")

    def object_or_list(self, name: str, path: str, query: dict[str, str], *, media: bool) -> None:
        if not name:
            listing = path.endswith("/o")
            self.say(200, self.bucket.listed(query.get("prefix", ""), query.get("delimiter")) if listing else {})
        elif name not in self.bucket.objects:
            self.say(404, f"No such object: mine/{name}")
        elif self.command == "DELETE":
            del self.bucket.objects[name]
            self.say(204, b"")
        elif media or query.get("alt") == "media":
            self.part(*self.bucket.objects[name])
        else:
            self.say(200, self.bucket.described(name))

    def part(self, data: bytes, generation: int) -> None:
        wanted = re.match(r"bytes=(\d*)-(\d*)", self.headers.get("Range") or "")
        told = {"x-goog-generation": str(generation)}
        if wanted is None:
            self.say(200, data, **told)
            return
        first, last = (int(given) if given else None for given in wanted.groups())
        start = len(data) - (last or 0) if first is None else first
        part = data[start : None if first is None or last is None else last + 1]
        self.say(206, part, **told, **{"Content-Range": f"bytes {start}-{start + len(part) - 1}/{len(data)}"})

    def say(self, status: int, what: Any, **headers: str) -> None:
        if isinstance(what, str):
            what = {"error": {"code": status, "message": what}}
        body = what if isinstance(what, bytes) else json.dumps(what).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    def handle_error(self, *args: Any) -> None: ...  # who asked has ended


@contextmanager
def serving() -> Iterator[Bucket]:
    """A bucket `gs://mine` behind a server of its own."""
    bucket = Bucket()
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"bucket": bucket}))
    bucket.address = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield bucket
    finally:
        server.shutdown()
        server.server_close()
