"""Redaction: removes from a text what looks like a secret, before it is logged. Pure."""

import re

HIDDEN = "***"
_PATTERNS = (
    re.compile(r"(?P<before>\b[a-z][a-z0-9+.-]*://[^\s:/@]*:)[^\s/@]+(?=@)"),
    re.compile(r"(?P<before>)\bS[ACNOUPX][A-Z2-7]{56}\b"),
    re.compile(r"(?P<before>(?i:\bbearer)\s+)[^\s'\",]+"),
    re.compile(r"(?P<before>\bpassword\s*=\s*)(?:'(?:\\.|[^'\\])*'|[^\s'&]+)", re.IGNORECASE),
    re.compile(r"(?P<before>\bmlscope_session=)[^\s;,'\"]+"),
)
_SECRET_NAME = re.compile(r"password|passwd|secret|token|seed|authorization|cookie", re.IGNORECASE)


def redact(text: str) -> str:
    """Return `text` without passwords, nkey seeds, bearer tokens and session cookies."""
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\g<before>{HIDDEN}", text)
    return text


def is_secret_name(name: str) -> bool:
    """Tell whether a field of this name holds a secret; the path of a file is none."""
    return bool(_SECRET_NAME.search(name)) and not name.endswith(("_file", "_path"))
