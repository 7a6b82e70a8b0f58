"""Parsers of settings: one function for each kind of value."""

import math
import re
import socket
from collections.abc import Callable, Mapping
from ipaddress import ip_network
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from mlscope.settings.errors import NotParsed

_SUFFIXES = {"": 1, "B": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
LEVELS = ("debug", "info", "warning", "error")
_FLAGS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}

Parse = Callable[[str], Any]


def text_as_it_is(text: str) -> str:
    """Return the text unchanged."""
    return text


def path_of(text: str) -> Path:
    """Return a path, with `~` expanded. Raises NotParsed."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise NotParsed("a path; the home folder does not exist") from None


def host_token() -> str:
    """Return this machine's host name as a token of a NATS subject."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname())[:64] or "agent"


def host_token_of(text: str) -> str:
    """Return a host's name as a token of a NATS subject: dots become hyphens. Raises NotParsed."""
    return token_of(text.replace(".", "-"))


def token_of(text: str) -> str:
    """Return a text that may be a token of a NATS subject. Raises NotParsed."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", text):
        raise NotParsed("1 to 64 characters of A-Z a-z 0-9 _ -")
    return text


def integer(minimum: int, maximum: int) -> Parse:
    """Return a parser of whole numbers from `minimum` to `maximum`."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"\d{1,18}", text) or not minimum <= int(text) <= maximum:
            raise NotParsed(f"a whole number from {minimum} to {maximum}")
        return int(text)

    return parse


def seconds_of(text: str) -> float:
    """Return a number of seconds above 0. Raises NotParsed."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise NotParsed("a number of seconds above 0")
    return seconds


def bytes_of(text: str) -> int:
    """Return a number of bytes; the text may have a unit, as in `16 MiB`. Raises NotParsed."""
    match = re.fullmatch(r"(\d{1,15})\s*([KMG]iB|B)?", text, re.IGNORECASE)
    if match is None or not int(match[1]):
        raise NotParsed("a number of bytes above 0, plain or with KiB, MiB or GiB")
    return int(match[1]) * _SUFFIXES[(match[2] or "").upper()]


def bytes_or_none(text: str) -> int:
    """Return a number of bytes; 0 means no limit. Raises NotParsed."""
    return 0 if text == "0" else bytes_of(text)


def bytes_up_to(maximum: int) -> Parse:
    """Return a parser of numbers of bytes up to `maximum`."""

    def parse(text: str) -> int:
        if bytes_of(text) > maximum:
            raise NotParsed(f"a number of bytes up to {maximum}")
        return bytes_of(text)

    return parse


def flag_of(text: str) -> bool:
    """Return a boolean. Raises NotParsed."""
    if text.lower() not in _FLAGS:
        raise NotParsed("true or false")
    return _FLAGS[text.lower()]


def level_of(text: str) -> str:
    """Return a logging level. Raises NotParsed."""
    if text.lower() not in LEVELS:
        raise NotParsed(f"one of {', '.join(LEVELS)}")
    return text.lower()


def choice_of(*choices: str) -> Parse:
    """Return a parser of one of `choices`."""

    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise NotParsed(f"one of {', '.join(choices)}")
        return text.lower()

    return parse


def names_of(text: str) -> tuple[str, ...]:
    """Return names that are separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def hosts_of(text: str) -> tuple[str, ...]:
    """Return hosts that are separated by commas: names, addresses, networks. Raises NotParsed."""
    names = names_of(text.lower())
    for name in names:
        if "/" in name:
            try:
                ip_network(name)
            except ValueError as error:
                raise NotParsed(
                    "hosts, addresses or networks such as 10.0.0.0/8, without scheme or path"
                ) from error
    return names


def labels_of(text: str) -> Mapping[str, str]:
    """Return `key=value` pairs that are separated by commas. Raises NotParsed."""
    pairs = [name.partition("=") for name in names_of(text)]
    if not all(key and equals for key, equals, _ in pairs):
        raise NotParsed("key=value,key=value")
    return MappingProxyType({key: value for key, _, value in pairs})


def url_of(*schemes: str) -> Parse:
    """Return a parser of URLs with one of these schemes."""

    def parse(text: str) -> str:
        expected = " or ".join(f"{scheme}://…" for scheme in schemes)
        try:
            parts = urlsplit(text)
        except ValueError as error:  # as `http://[::1`
            raise NotParsed(f"{expected} ({error})") from error
        if parts.scheme not in schemes or not parts.netloc:
            raise NotParsed(expected)
        return text

    return parse


def url_or_off(*schemes: str) -> Parse:
    """Return a parser of URLs with one of these schemes, and of `off`, which is ''."""
    parse_url = url_of(*schemes)

    def parse(text: str) -> str:
        if text.strip().lower() == "off":
            return ""
        try:
            return str(parse_url(text))
        except NotParsed as error:
            raise NotParsed(f"{error}, or off") from error

    return parse


def urls_of(*schemes: str) -> Parse:
    """Return a parser of URLs that are separated by commas, with one of these schemes each."""
    parse_one = url_of(*schemes)

    def parse(text: str) -> str:
        return ",".join(parse_one(url) for url in names_of(text) or ("",))

    return parse


def secret_in(path: Path) -> str:
    """Return the secret that a file has, without the white space around it. Raises OSError."""
    return path.read_text("utf-8").strip()
