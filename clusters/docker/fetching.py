"""How this machine fetches packages, as input for image builds: mirror, proxy, certificates, pip's index.

Guarantees: what the host uses, a build uses too, for the length of the build only: nothing of it stays in an image or
is written anywhere in the project. Out of scope: credentials kept outside apt's and pip's configuration (netrc,
keyrings), and settings that name paths of the host which a build does not have.
"""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from dethrone.clusters.docker.packages import os_release

BUILD = "/run/dethrone-build"
"""Where the build finds this input; removed before the image is made."""

_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")
_PIP = ("index-url", "extra-index-url", "find-links", "no-index", "trusted-host", "proxy", "timeout", "retries")
_BUNDLES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_BUNDLE_PATHS = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem")


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One archive of apt's: where, which suites, which components."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    trusted: bool = False

    def lines(self) -> list[str]:
        """The archive in sources.list's words."""
        option = "[trusted=yes] " if self.trusted else ""
        return [f"deb {option}{self.uri} {suite} {' '.join(self.components)}" for suite in self.suites]


class Fetching(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a build is given. ``files`` lie below ``BUILD``; ``environment`` is the build's only."""

    files: Mapping[str, bytes]
    environment: Mapping[str, str]
    mirror: str | None
    """The archive for the release, if this machine names one."""


def fetching(release: str) -> Fetching:
    """Read this machine's configuration, for a build of the Debian ``release``."""
    files: dict[str, bytes] = {}
    environment = {"DEBIAN_FRONTEND": "noninteractive", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_CACHE_DIR": "1"}
    environment |= {
        name: os.environ[name] for word in _PROXIES for name in (word, word.upper()) if os.environ.get(name)
    }
    environment |= pip_environment(_pip_settings(_pip_files()), os.environ)
    apt = _apt_acquire()
    if bundle := _bundle():
        files["ca.crt"] = bundle
        environment |= dict.fromkeys((*_BUNDLES, "GIT_SSL_CAINFO"), f"{BUILD}/ca.crt")
        apt.append(f'Acquire::https::CAInfo "{BUILD}/ca.crt";')
    own = os_release()
    sources = serving(_apt_sources(), release, own.get("VERSION_CODENAME", "")) if own.get("ID") == "debian" else []
    if sources:
        files["sources.list"] = "".join(f"{line}\n" for source in sources for line in source.lines()).encode()
        apt += [f'Dir::Etc::SourceList "{BUILD}/sources.list";', 'Dir::Etc::SourceParts "-";']
    for path in sorted(Path("/etc/apt/auth.conf.d").glob("*.conf")):
        if os.access(path, os.R_OK):
            files[f"auth.conf.d/{path.name}"] = path.read_bytes()
    apt.append(f'Dir::Etc::netrcparts "{BUILD}/auth.conf.d";')
    files["apt.conf"] = "".join(f"{line}\n" for line in apt).encode()
    environment["APT_CONFIG"] = f"{BUILD}/apt.conf"
    mirrors = [source.uri for source in sources if release in source.suites]
    return Fetching(files=files, environment=environment, mirror=mirrors[0] if mirrors else None)


def parse_sources(text: str, *, deb822: bool) -> list[Source]:
    """The archives of one of apt's files, in its one-line or its deb822 form; what cannot be used is skipped."""
    found = [_paragraph(part) for part in text.split("\n\n")] if deb822 else map(_line, text.splitlines())
    return [source for source in found if source is not None]


def matching(sources: Iterable[Source], release: str) -> list[Source]:
    """The archives that serve ``release`` (with its updates and security), reduced to those suites."""
    wanted = (release, f"{release}-updates", f"{release}-security")
    kept: list[Source] = []
    for source in sources:
        suites = tuple(suite for suite in source.suites if suite in wanted)
        if suites and "main" in source.components:
            kept.append(Source(uri=source.uri, suites=suites, components=("main",), trusted=source.trusted))
    return kept


def serving(sources: Sequence[Source], release: str, own: str) -> list[Source]:
    """The archives of ``release``; where none is named, those of the machine's ``own``, which have it, too."""
    return matching(sources, release) or [
        Source(uri=source.uri, suites=(release,), components=("main",), trusted=source.trusted)
        for source in matching(sources, own)
        if own in source.suites
    ]


def pip_environment(settings: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """What pip is given, as its environment variables. Local paths are skipped: a build does not have them."""
    names = {name: f"PIP_{name.upper().replace('-', '_')}" for name in (*_PIP, "default-timeout")}
    given = {names[name]: value for name, value in settings.items() if name in names}
    given |= {name: environment[name] for name in names.values() if environment.get(name)}
    remote: dict[str, str] = {}
    for name, value in given.items():
        words = [word for word in value.split() if not word.startswith(("/", "~", ".", "file:"))]
        if words:
            remote[name] = " ".join(words)
    return remote


def _line(line: str) -> Source | None:
    words = line.split("#", 1)[0].split()
    if not words or words[0] != "deb":
        return None
    options: list[str] = []
    if len(words) > 1 and words[1].startswith("["):
        end = next((i for i, word in enumerate(words) if word.endswith("]")), len(words) - 1)
        options = " ".join(words[1 : end + 1]).strip("[] ").split()
        words = [words[0], *words[end + 1 :]]
    settings = dict(option.lower().split("=", 1) for option in options if "=" in option)
    if len(words) < 4:
        return None
    return _source(words[1], words[2:3], words[3:], settings.get("signed-by", ""), settings.get("trusted", ""))


def _paragraph(paragraph: str) -> Source | None:
    fields: dict[str, str] = {}
    name = ""
    for line in paragraph.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if line[0] in " \t":
            fields[name] = f"{fields.get(name, '')} {line.strip()}"
        else:
            name, _, value = line.partition(":")
            name = name.lower()
            fields[name] = value.strip()
    if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() == "no":
        return None
    uri = fields.get("uris", "").split()
    return _source(
        uri[0] if uri else "",
        fields.get("suites", "").split(),
        fields.get("components", "").split(),
        fields.get("signed-by", ""),
        fields.get("trusted", ""),
    )


def _source(uri: str, suites: Sequence[str], components: Sequence[str], signed_by: str, trusted: str) -> Source | None:
    """An archive that an image can use: fetched over the network and signed by Debian's own keys."""
    if not uri.startswith(("http://", "https://")) or (signed_by and "debian-archive" not in signed_by):
        return None
    return Source(uri=uri, suites=tuple(suites), components=tuple(components), trusted=trusted.lower() == "yes")


def _apt_sources() -> list[Source]:
    found: list[Source] = []
    root = Path("/etc/apt")
    for path in [root / "sources.list", *sorted((root / "sources.list.d").glob("*"))]:
        if path.suffix in {".list", ".sources"} and os.access(path, os.R_OK):
            text = path.read_text(encoding="utf-8", errors="replace")
            found += parse_sources(text, deb822=path.suffix == ".sources")
    return found


def _apt_acquire() -> list[str]:
    """The host's settings of how apt fetches, less those that name files of the host."""
    try:
        dump = subprocess.run(
            ["apt-config", "dump", "Acquire"], capture_output=True, text=True, check=False, timeout=20
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    wanted = ("http", "https", "ftp", "check-", "retries", "forceipv", "allow", "max-futuretime")
    kept: list[str] = []
    for line in dump.splitlines():
        name, _, value = line.partition(" ")
        section = name.lower().partition("::")[2]
        if section.startswith(wanted) and not value.startswith('"/') and value not in {'"";', ""}:
            kept.append(line)
    return kept


def _pip_files() -> list[Path]:
    named = os.environ.get("PIP_CONFIG_FILE")
    home = Path.home()
    return [
        Path("/etc/xdg/pip/pip.conf"),
        Path("/etc/pip.conf"),
        home / ".pip" / "pip.conf",
        Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf",
        Path(sys.prefix) / "pip.conf",
        *([Path(named)] if named else []),
    ]


def _pip_settings(paths: Iterable[Path]) -> dict[str, str]:
    """Pip's settings for installing; later files win, as with pip."""
    settings: dict[str, str] = {}
    for path in paths:
        parser = configparser.RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, OSError, UnicodeError):
            continue  # pip would complain; a build without this file may still work
        for section in ("global", "install"):
            if parser.has_section(section):
                settings |= {name.replace("_", "-"): value for name, value in parser.items(section)}
    return settings


def _bundle() -> bytes | None:
    """The host's trusted certificates: it may trust a proxy's or a mirror's own authority."""
    named = [os.environ[name] for name in _BUNDLES if os.environ.get(name)]
    for path in [*named, *_BUNDLE_PATHS]:
        if Path(path).is_file() and os.access(path, os.R_OK):
            return Path(path).read_bytes()
    return None
