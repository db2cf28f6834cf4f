"""The software bill of materials: what the lock files and the images' recipes name, as CycloneDX 1.5 JSON on stdout.

    python tests/sbom.py > sbom.cdx.json

Promises: made from the files that are installed from (locks, recipes, go.mod) and nothing else, so it is true of any
checkout and the same for the same files. Out of scope: Debian packages' versions, which an image's build decides.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tomllib
import uuid
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
LOCKS = (".ci/requirements.lock", ".ci/requirements-build.lock", "clusters/node.lock")
RECIPES = HERE / "clusters" / "docker" / "recipes"
_PIN = re.compile(r"^([A-Za-z0-9_.-]+)==([^\s;\\]+)", re.MULTILINE)
_MODULE = re.compile(r"^(?:require)?\s+([a-z0-9.-]+\.[a-z]+/\S+) (v\S+)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def python_components() -> list[dict[str, Any]]:
    """Of the locks; the hashes are those of all files of a version."""
    out: dict[str, dict[str, Any]] = {}
    for lock in LOCKS:
        text = (HERE / lock).read_text(encoding="utf-8")
        pins = list(_PIN.finditer(text))
        for number, pin in enumerate(pins):
            end = pins[number + 1].start() if number + 1 < len(pins) else len(text)
            purl = f"pkg:pypi/{pin[1].lower()}@{pin[2]}"
            hashes = [{"alg": "SHA-256", "content": one} for one in _HASH.findall(text[pin.end() : end])]
            files = [{"type": "distribution", "url": purl, "hashes": [one]} for one in hashes]
            out[purl] = component("library", pin[1], pin[2], purl, externalReferences=files)
    return list(out.values())


def recipe_components() -> list[dict[str, Any]]:
    """Jars and wheels that recipes of images pin, Debian packages and Go modules that they name."""
    out: dict[str, dict[str, Any]] = {}
    for path in sorted(RECIPES.glob("*.toml")):
        recipe = tomllib.loads(path.read_text(encoding="utf-8"))
        for jar in recipe.get("jars", ()):
            group, name, version, *classifier = jar["coordinates"].split(":")
            purl = f"pkg:maven/{group}/{name}@{version}" + (f"?classifier={classifier[0]}" if classifier else "")
            hashes = [{"alg": "SHA-256", "content": jar["sha256"]}]
            out[purl] = component("library", name, version, purl, group=group, hashes=hashes)
        for wheel in recipe.get("wheels", ()):
            name, version = wheel["requirement"].split("==")
            purl = f"pkg:pypi/{name}@{version}"
            out[purl] = component(
                "library", name, version, purl, hashes=[{"alg": "SHA-256", "content": wheel["sha256"]}]
            )
        for package in recipe.get("packages", ()):
            purl = f"pkg:deb/debian/{package}?distro=bookworm"
            out[purl] = component("library", package, "", purl)
    for path in sorted(RECIPES.glob("*/go.mod")):
        for name, version in _MODULE.findall(path.read_text(encoding="utf-8")):
            purl = f"pkg:golang/{name}@{version}"
            out[purl] = component("library", name, version, purl)
    return list(out.values())


def component(kind: str, name: str, version: str, purl: str, **more: Any) -> dict[str, Any]:
    """One component, by its package URL."""
    known = {"version": version} if version else {}
    return {"type": kind, "bom-ref": purl, "name": name, **known, "purl": purl, **more}


def bill() -> dict[str, Any]:
    """The whole document."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    purl = f"pkg:pypi/{project['name']}@{project['version']}"
    components = sorted([*python_components(), *recipe_components()], key=lambda one: str(one["purl"]))
    digest = hashlib.sha256(json.dumps(components, sort_keys=True).encode()).hexdigest()
    about = component("application", project["name"], project["version"], purl)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}",
        "version": 1,
        "metadata": {"component": {**about, "licenses": [{"license": {"id": project["license"]}}]}},
        "components": components,
    }


if __name__ == "__main__":
    json.dump(bill(), sys.stdout, indent=2)
    sys.stdout.write("\n")
