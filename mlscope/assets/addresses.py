"""Addresses of assets, as manifests give them, parsed into sources of files. Pure.

file:below/the/root   below/the/root         a file of this host, within a root
https://host/path     http://host/path       a file on the web; http: only with a checksum
artifact://name                              an object of the artifact repository
pypi://package==version/path/in/wheel        one file of a wheel (without a path: the wheel)
hf://organisation/repository@revision/path   one file of a repository on a model hub
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
        """Whether the transfer is encrypted."""
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
        """The requirement for pip."""
        return f"{self.package}=={self.version}"

    @property
    def address(self) -> str:
        """The address in its one canonical form."""
        return f"pypi://{self.requirement}/{self.path}".rstrip("/")

    @property
    def wheel(self) -> "PackageSource":
        """The wheel that contains this file."""
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
        """Whether the revision is a commit, whose content never changes."""
        return _COMMIT.fullmatch(self.revision) is not None

    def url(self, hub_url: str) -> str:
        """Return the URL of the file on the hub at `hub_url`."""
        revision = quote(self.revision, safe="")
        return f"{hub_url.rstrip('/')}/{self.repository}/resolve/{revision}/{quote(self.path)}"


Source = FileSource | HttpSource | ArtifactSource | PackageSource | HubSource


def parse(address: str) -> Source:
    """Return the source that an address stands for. Raises BadAddress."""
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
    """Return the address of `path` below a base URL; a `path` that is an address is returned."""
    if not base or _SCHEME.match(path) is not None or path.startswith("/"):
        return path
    return f"{base.rstrip('/')}/{path}" if path else base


def address_of(assets: "Assets", name: str) -> str:
    """Return the address of a model's file; `name` is its name in the manifest."""
    return assets.addresses.get(name) or joined(assets.base_url, name)


def _file(address: str, path: str) -> FileSource:
    if path.startswith("//"):
        host, _, below = path[2:].partition("/")
        if host not in ("", "localhost"):
            raise BadAddress(address, "host", "empty or localhost")
        path = f"/{unquote(below).lstrip('/')}"
    if not path.strip("/") or "\0" in path:
        raise BadAddress(address, "path", "the path of a file")
    return FileSource(path)


def _http(address: str, _: str) -> HttpSource:
    try:
        parts = urlsplit(address)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        has_host = False
    if not has_host or not address.isascii() or " " in address:
        raise BadAddress(address, "host", "a host name, optionally with a port")
    if "@" in parts.netloc:
        raise BadAddress(address, "host", "without user or password: manifests are public")
    return HttpSource(parts._replace(scheme=parts.scheme.lower(), fragment="").geturl())


def _artifact(address: str, name: str) -> ArtifactSource:
    name = name.removeprefix("//")
    if _NAME.fullmatch(name) is None:
        raise BadAddress(address, "name", "words of A-Z a-z 0-9 . _ @ + - joined by /")
    return ArtifactSource(name)


def _package(address: str, location: str) -> PackageSource:
    requirement, _, path = location.removeprefix("//").partition("/")
    match = _PACKAGE.fullmatch(requirement)
    if match is None:
        raise BadAddress(address, "package", "package==version")
    if _VERSION.fullmatch(match["version"]) is None:
        raise BadAddress(address, "version", "one exact version")
    return PackageSource(match["name"], match["version"], _inner(address, path) if path else "")


def _hub(address: str, location: str) -> HubSource:
    parts = location.removeprefix("//").split("/", 2)
    repository, at, revision = parts[1].partition("@") if len(parts) == 3 else ("", "", "")
    revision = unquote(revision)
    if not at or not all(_OWNER.fullmatch(name) for name in (parts[0], repository)):
        raise BadAddress(address, "repository", "organisation/repository@revision/path")
    if _REVISION.fullmatch(revision) is None or ".." in revision:
        raise BadAddress(address, "revision", "a commit, tag or branch")
    return HubSource(f"{parts[0]}/{repository}", revision, _inner(address, parts[2]))


def _inner(address: str, path: str) -> str:
    """Check a path within a wheel or repository: relative, normalised, inside its root."""
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
