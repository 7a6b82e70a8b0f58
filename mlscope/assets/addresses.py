"""Addresses of assets: pure parsing of the text a manifest holds into where a file is.

file:below/the/root   below/the/root         a file of this host, within a root
https://host/path     http://host/path       the latter with a checksum only
artifact://name                              an object of the artifact repository
pypi://package==version/path/in/wheel        one file of a wheel (without a path: the wheel)
hf://organisation/repository@revision/path   one file of a hub's repository
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from posixpath import normpath
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from mlscope.assets.errors import BadAddress

if TYPE_CHECKING:
    from schemas.manifest import Assets

_LONGEST = 4096
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_PACKAGE = re.compile(r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)==(?P<version>.*)")
_VERSION = re.compile(r"[0-9][A-Za-z0-9.!+_-]*")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@+-]*(?:/[A-Za-z0-9_][A-Za-z0-9._@+-]*)*")
_OWNER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class FileSource:
    """A file of this host; `path` is relative to a root, or absolute and below one."""

    path: str

    @property
    def address(self) -> str:
        """The address in its one canonical form."""
        return f"file:{self.path}"


@dataclass(frozen=True, slots=True)
class HttpSource:
    """A file of a web server."""

    url: str

    @property
    def address(self) -> str:
        """The address in its one canonical form."""
        return self.url

    @property
    def is_encrypted(self) -> bool:
        """Whether nobody on the way can alter it."""
        return self.url.startswith("https:")


@dataclass(frozen=True, slots=True)
class ArtifactSource:
    """An object of the artifact repository."""

    name: str

    @property
    def address(self) -> str:
        """The address in its one canonical form."""
        return f"artifact://{self.name}"


@dataclass(frozen=True, slots=True)
class PackageSource:
    """A file of a wheel; an empty `path` is the wheel itself."""

    package: str
    version: str
    path: str = ""

    @property
    def requirement(self) -> str:
        """What pip is asked for."""
        return f"{self.package}=={self.version}"

    @property
    def address(self) -> str:
        """The address in its one canonical form."""
        return f"pypi://{self.requirement}/{self.path}".rstrip("/")

    @property
    def wheel(self) -> "PackageSource":
        """The whole wheel this file is in."""
        return PackageSource(self.package, self.version)


@dataclass(frozen=True, slots=True)
class HubSource:
    """A file of a repository on a model hub."""

    repository: str
    revision: str
    path: str

    @property
    def address(self) -> str:
        """The address in its one canonical form."""
        return f"hf://{self.repository}@{quote(self.revision, safe='')}/{self.path}"

    @property
    def is_immutable(self) -> bool:
        """Whether the revision is a commit, which always holds the same."""
        return _COMMIT.fullmatch(self.revision) is not None

    def url(self, hub_url: str) -> str:
        """Return where the file is on the hub at `hub_url`."""
        revision = quote(self.revision, safe="")
        return f"{hub_url.rstrip('/')}/{self.repository}/resolve/{revision}/{quote(self.path)}"


Source = FileSource | HttpSource | ArtifactSource | PackageSource | HubSource


def parse(address: str) -> Source:
    """Return where an address says a file is. Raises BadAddress."""
    if not address or len(address) > _LONGEST or not address.isprintable():
        raise BadAddress(address[:80], "text", f"1 to {_LONGEST} printable characters")
    scheme = _SCHEME.match(address)
    if scheme is None:
        return _file(address, address)
    name = scheme[1].lower()
    if name not in _PARSERS:
        raise BadAddress(address, "scheme", f"one of {', '.join(_PARSERS)}, or a plain path")
    return _PARSERS[name](address, address[scheme.end() :])


def joined(base: str, path: str) -> str:
    """Return the address of `path` below a manifest's base URL; an address stands for itself."""
    if not base or _SCHEME.match(path) is not None or path.startswith("/"):
        return path
    return f"{base.rstrip('/')}/{path}" if path else base


def address_of(assets: "Assets", name: str) -> str:
    """Return the address of a model's file, by the name that its manifest gives it."""
    return assets.addresses.get(name) or joined(assets.base_url, name)


def _file(address: str, rest: str) -> FileSource:
    if rest.startswith("//"):
        host, _, below = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise BadAddress(address, "host", "empty or localhost")
        rest = f"/{unquote(below).lstrip('/')}"
    if not rest.strip("/") or "\0" in rest:
        raise BadAddress(address, "path", "the path of a file")
    return FileSource(rest)


def _http(address: str, _: str) -> HttpSource:
    try:
        parts = urlsplit(address)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        has_host = False
    if not has_host or not address.isascii() or " " in address:
        raise BadAddress(address, "host", "a host name and, if any, a port")
    if "@" in parts.netloc:
        raise BadAddress(address, "host", "without user or password: manifests are public")
    return HttpSource(parts._replace(scheme=parts.scheme.lower(), fragment="").geturl())


def _artifact(address: str, rest: str) -> ArtifactSource:
    name = rest.removeprefix("//")
    if _NAME.fullmatch(name) is None:
        raise BadAddress(address, "name", "words of A-Z a-z 0-9 . _ @ + - joined by /")
    return ArtifactSource(name)


def _package(address: str, rest: str) -> PackageSource:
    requirement, _, path = rest.removeprefix("//").partition("/")
    found = _PACKAGE.fullmatch(requirement)
    if found is None:
        raise BadAddress(address, "package", "package==version")
    if _VERSION.fullmatch(found["version"]) is None:
        raise BadAddress(address, "version", "one exact version")
    return PackageSource(found["name"], found["version"], _inner(address, path) if path else "")


def _hub(address: str, rest: str) -> HubSource:
    parts = rest.removeprefix("//").split("/", 2)
    repository, at, revision = parts[1].partition("@") if len(parts) == 3 else ("", "", "")
    revision = unquote(revision)
    if not at or not all(_OWNER.fullmatch(each) for each in (parts[0], repository)):
        raise BadAddress(address, "repository", "organisation/repository@revision/path")
    if _REVISION.fullmatch(revision) is None or ".." in revision:
        raise BadAddress(address, "revision", "a commit, tag or branch")
    return HubSource(f"{parts[0]}/{repository}", revision, _inner(address, parts[2]))


def _inner(address: str, path: str) -> str:
    """Return a path within a wheel or repository, which has one spelling only."""
    if not path or path.startswith("/") or "\\" in path or normpath(path) != path or path == ".":
        raise BadAddress(address, "path", "a relative path without . or ..")
    if path.startswith("../") or path == "..":
        raise BadAddress(address, "path", "a path that does not leave its root")
    return path


_PARSERS: Mapping[str, Callable[[str, str], Source]] = MappingProxyType(
    {
        "file": _file,
        "https": _http,
        "http": _http,
        "artifact": _artifact,
        "pypi": _package,
        "hf": _hub,
    }
)
