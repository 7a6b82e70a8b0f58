"""Texts of others for a terminal, a log or a spreadsheet: what would act there is shown. Pure.

Control characters move the cursor, delete what was printed or speak to the terminal; a line end
makes a line of its own, which may look like one of ours. Format characters reorder a line, or are
not drawn, so that different names look alike. A spreadsheet takes a text for a formula,
which may send other cells away (https://owasp.org/www-community/attacks/CSV_Injection).
"""

import re

_JOINER_IN_WORD = r"(?<=[^\x00-\x7f\u200c\u200d])[\u200c\u200d](?=[^\x00-\x7f\u200c\u200d])"
"""Words in Persian or Hindi and pictures of several parts need joiners; words in ASCII do not."""
_UNPRINTABLE = re.compile(
    rf"(?!{_JOINER_IN_WORD})"
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f\ufeff"
    r"\ufff9-\ufffb\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0001\U000e0020-\U000e007f]"
)
"""Unicode's categories Cc, Cf, Zl and Zp, without the signs of Cf that are drawn: those that stand
around numbers in Arabic and the like (Prepended_Concatenation_Mark)."""

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
