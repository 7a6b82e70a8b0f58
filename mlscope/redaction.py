"""Redaction: what looks like a secret, by its name or in a text. Pure."""

import re

HIDDEN = "***"
# A scheme without a bound would be looked for from each word to the text's end.
_PATTERNS = (
    re.compile(r"(?P<before>\b[a-z][a-z0-9+.-]{0,31}://[^\s:/@]*:)[^\s/@]+(?=@)", re.IGNORECASE),
    re.compile(r"(?P<before>)\bS[ACNOUPX][A-Z2-7]{56}\b"),
    re.compile(r"(?P<before>(?i:\bbearer)\s+)[^\s'\",]+"),
    re.compile(r"(?P<before>\bpassword\s*=\s*)(?:'(?:\\.|[^'\\])*'|[^\s'&]+)", re.IGNORECASE),
    re.compile(r"(?P<before>\bmlscope_session\w{0,32}=)[^\s;,'\"]+"),
    re.compile(r"(?P<before>\bauthorization\s*[:=]\s*(?:[a-z]+\s+)?)[^\s,;'\"]+", re.IGNORECASE),
    # As in connection strings.
    re.compile(r"(?P<before>(?i:\b(?:api[_-]?|account|access|shared)key\s*=\s*))[^\s;,&'\"]+"),
    re.compile(r"(?P<before>[?&]login=)[^\s;,&'\"]+"),
)
# Not TOKENS: a model's are counted (MAX_TOKENS). A DSN is an address with a key, as of Sentry;
# headers are those that an exporter logs in with, as in OTEL_EXPORTER_OTLP_HEADERS.
_SECRET_WORDS = frozenset(
    {
        "AUTH",
        "AUTHORIZATION",
        "COOKIE",
        "COOKIES",
        "CREDENTIAL",
        "CREDENTIALS",
        "DSN",
        "HEADERS",
        "PASS",
        "PASSPHRASE",
    }
    | {"PASSWORDS", "PAT", "PWD", "SECRETS", "SEED", "SEEDS"}
)
_SECRET_ENDS = ("APIKEY", "PASSWD", "PASSWORD", "PRIVATEKEY", "SECRET", "SSHPASS", "TOKEN")
_WORDS = re.compile(r"[A-Z0-9]+")


def redact(text: str) -> str:
    """Return `text` without passwords, nkey seeds, bearer tokens and session cookies."""
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\g<before>{HIDDEN}", text)
    return text


def is_secret_name(name: str) -> bool:
    """Tell whether a field or variable of this name holds a secret.

    The path of a file is none, nor the working folder (`PWD`), nor a public key.
    """
    upper = name.upper()
    if upper == "PWD" or upper.endswith(("_FILE", "_PATH", "PUBLIC_KEY")):
        return False
    words = _WORDS.findall(upper)
    return upper.endswith("_KEY") or any(
        word in _SECRET_WORDS or word.endswith(_SECRET_ENDS) for word in words
    )
