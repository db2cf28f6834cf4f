"""A program that makes a host ready for a node and becomes it: unpacks directories, and and environments of packages.

    ``python3 unpack.py CONFIG COMMAND ...``

Guarantees: only the standard library, for it travels to hosts alone; what is unpacked is whole or not there, and is
unpacked once; a wheel for another Python is refused. Out of scope: where packages come from; this host has no network.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import stat
import sys
import zipfile

CANNOT = 126
_CPYTHON = re.compile(r"cp3(\d+)")


def suits(wheel: str, version: tuple[int, int]) -> bool:
    """Whether this Python 3 can use the wheel of this file name.

    >>> suits("a-1-py3-none-any.whl", (3, 11)), suits("a-1-cp39-abi3-manylinux_2_17_x86_64.whl", (3, 11))
    (True, True)
    >>> suits("a-1-cp312-cp312-manylinux_2_17_x86_64.whl", (3, 11))
    False
    """
    python, abi, platform = wheel.removesuffix(".whl").split("-")[-3:]
    if platform == "any" and abi == "none":
        return True
    minors = [int(found) for found in _CPYTHON.findall(python)]
    return version[1] in minors or (abi == "abi3" and any(minor <= version[1] for minor in minors)) or "py3" in python


def unpack_folder(archive: str, place: str) -> None:
    """A directory, with the rights that its files have."""
    with zipfile.ZipFile(archive) as packed:
        for entry in packed.infolist():
            path = packed.extract(entry, place)
            if not entry.is_dir():
                os.chmod(path, stat.S_IMODE(entry.external_attr >> 16) | 0o600)  # noqa: PTH101


def unpack_wheels(wheels: list[str], place: str) -> None:
    """An environment: packages below ``place``, their programs in its ``bin``. Raises ValueError for a wrong wheel."""
    os.makedirs(f"{place}/bin")  # noqa: PTH103
    for wheel in wheels:
        name = os.path.basename(wheel)  # noqa: PTH119
        if not suits(name, sys.version_info[:2]):
            raise ValueError(f"{name} is for another Python than this host's, {sys.version.split()[0]}")
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(place)
            infos = [entry for entry in packed.namelist() if re.fullmatch(r"[^/]+\.dist-info/entry_points\.txt", entry)]
            for info in infos:
                _programs(packed.read(info).decode("utf-8"), f"{place}/bin")
    for name in os.listdir(place):  # noqa: PTH208
        if name.endswith(".data"):
            _spread(f"{place}/{name}", place)


def _programs(text: str, place: str) -> None:
    points = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    points.optionxform = str  # type: ignore[assignment, method-assign]
    points.read_string(text)
    for name, target in points.items("console_scripts") if points.has_section("console_scripts") else ():
        module, _, attribute = target.partition("[")[0].strip().partition(":")
        first = attribute.strip().partition(".")[0]
        call = f"sys.exit({attribute.strip()}())"
        lines = (f"#!{sys.executable}", "import sys", f"from {module} import {first}", call)
        _program(f"{place}/{os.path.basename(name)}", "\n".join(lines).encode() + b"\n")  # noqa: PTH119


def _program(path: str, content: bytes) -> None:
    with open(path, "wb") as file:  # noqa: PTH123
        file.write(content)
    os.chmod(path, 0o755)  # noqa: PTH101, S103 - a program, in a directory of the node's own


def _spread(data: str, place: str) -> None:
    """What a wheel has for other places than that of packages."""
    for part, where in (("purelib", place), ("platlib", place), ("data", place)):
        if os.path.isdir(f"{data}/{part}"):  # noqa: PTH112
            shutil.copytree(f"{data}/{part}", where, dirs_exist_ok=True)
    for name in os.listdir(f"{data}/scripts") if os.path.isdir(f"{data}/scripts") else ():  # noqa: PTH112, PTH208
        with open(f"{data}/scripts/{name}", "rb") as file:  # noqa: PTH123
            content = file.read()
        _program(f"{place}/bin/{name}", re.sub(rb"\A#!pythonw?\b", f"#!{sys.executable}".encode(), content))


def prepare(config: dict[str, object]) -> None:
    """All that is not there yet."""
    note = str(config["note"])
    done: list[str] = []
    if os.path.exists(note):  # noqa: PTH110
        with open(note, encoding="utf-8") as file:  # noqa: PTH123
            done = json.load(file)
    for archive, place in config["folders"]:  # type: ignore[attr-defined]
        if place not in done:
            unpack_folder(archive, place)
            done.append(place)
    site = str(config["site"])
    if config["wheels"] and site not in done:
        shutil.rmtree(site, ignore_errors=True)
        unpack_wheels(list(config["wheels"]), site)  # type: ignore[call-overload]
        done.append(site)
    with open(f"{note}.half", "w", encoding="utf-8") as file:  # noqa: PTH123
        json.dump(done, file)
    os.replace(f"{note}.half", note)  # noqa: PTH105
    if config["wheels"]:
        _found_first(PYTHONPATH=site, PATH=f"{site}/bin")
    if config["modules"]:
        _found_first(NODE_PATH=str(config["modules"]), PATH=f"{config['modules']}/.bin")


def _found_first(**places: str) -> None:
    """Let the node look there before it looks elsewhere."""
    for name, path in places.items():
        rest = os.environ.get(name) or (os.defpath if name == "PATH" else "")
        os.environ[name] = f"{path}{os.pathsep}{rest}" if rest else path


def main(arguments: list[str]) -> None:
    """Make ready, then become the command."""
    path, *command = arguments
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            prepare(json.load(file))
    except (OSError, ValueError, zipfile.BadZipFile, configparser.Error) as error:
        sys.stderr.write(f"dethrone: the node's files cannot be unpacked: {error}\n")
        sys.exit(CANNOT)
    os.execvp(command[0], command)  # noqa: S606 - the node's own command, split into words


if __name__ == "__main__":
    main(sys.argv[1:])
