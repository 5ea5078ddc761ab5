"""Writes what tpu-port is made of and tested with: `python bench/sbom.py [OUT]`, a CycloneDX 1.6 document.

The components are the pins of porter/constraints.txt, each with the SHA-256 hashes of its files on PyPI as
constraints-hashes.txt has them. What porting alone needs is `required`, the rest `optional`. The same pins give the
same bytes: it holds no time and no random number.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
import uuid
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / "porter" / "constraints.txt"
HASHES = ROOT / "constraints-hashes.txt"
PIN = re.compile(r"([A-Za-z0-9][\w.-]*)==([^\s;\\]+)")


def pins(path: Path) -> dict[str, str]:
    """Name (as PyPI spells it) → version of a constraints file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {plain(match[1]): match[2] for line in lines if (match := PIN.match(line))}


def hashes(path: Path = HASHES) -> dict[str, list[str]]:
    """Name → SHA-256 hashes of a file that `uv pip compile --generate-hashes` wrote."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if match := PIN.match(line):
            name = plain(match[1])
            found[name] = []
        elif match := re.match(r"\s+--hash=sha256:([0-9a-f]{64})\b", line):
            found[name].append(match[1])
    return found


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def document() -> dict[str, Any]:
    """The whole document."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = re.search(r'__version__ = "(.+)"', (ROOT / "porter" / "__init__.py").read_text(encoding="utf-8"))
    assert version is not None
    needed = {plain(re.split(r"[^\w.-]", requirement)[0]) for requirement in project["dependencies"]}
    found = hashes()
    components = [
        {
            "type": "library",
            "bom-ref": f"pkg:pypi/{name}@{pin}",
            "name": name,
            "version": pin,
            "purl": f"pkg:pypi/{name}@{pin}",
            "scope": "required" if name in needed else "optional",
            "hashes": [{"alg": "SHA-256", "content": text} for text in found.get(name, ())],
        }
        for name, pin in sorted(pins(CONSTRAINTS).items())
    ]
    own = f"pkg:pypi/{project['name']}@{version[1]}"
    content = json.dumps(components, sort_keys=True)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, own + content)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": project["name"],
                "version": version[1],
                "purl": own,
                "licenses": [{"license": {"id": project["license"]}}],
            }
        },
        "components": components,
        "dependencies": [
            {"ref": own, "dependsOn": [row["bom-ref"] for row in components if row["scope"] == "required"]}
        ],
    }


def main() -> int:
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist" / "sbom.cdx.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(document(), indent=2) + "\n", encoding="utf-8")
    print(f"{out}: {len(document()['components'])} components")
    return 0


if __name__ == "__main__":
    sys.exit(main())
