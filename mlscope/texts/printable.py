"""Texts of others for a terminal, a log or a spreadsheet: what would act there is shown. Pure.

Control characters move the cursor, delete what was printed or speak to the terminal; a line end
makes a line of its own, which may look like one of ours. A spreadsheet takes a text for a formula,
which may send other cells away (https://owasp.org/www-community/attacks/CSV_Injection).
"""

import re

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def csv_cell(value: object) -> object:
    """Return a value as a cell of CSV: a text that begins like a formula gets a `'` before it.

    A text that is a number, as `-1.5` or `+19%`, stays as it is.
    """
    if not isinstance(value, str) or not value.startswith(_FORMULA_STARTS):
        return value
    try:
        float(value.removesuffix("%"))
    except ValueError:
        return f"'{value}"
    return value


def printable(text: str) -> str:
    """Return `text` on one line, with white space for white space and escapes for other codes."""
    return _UNPRINTABLE.sub(lambda match: " " if match[0].isspace() else _escape(match), text)


def printable_lines(text: str) -> str:
    """Return the lines of a text, each `printable`."""
    return "\n".join(map(printable, text.split("\n")))


def escaped(text: str) -> str:
    """Return `text` with an escape for every code, also for line ends."""
    return _UNPRINTABLE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return repr(match[0])[1:-1]
