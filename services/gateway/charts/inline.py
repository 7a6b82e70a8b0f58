"""A drawing as a part of a page: it has a name for screen readers, and ids of its own. Pure."""

import html
import re

_TAG = re.compile(r'<[^<>"]*(?:"[^"]*"[^<>"]*)*>')
"""A tag. Texts between tags are names that others chose: they may look like attributes."""
_ROOT = re.compile(r"<svg [^>]*?width=\"([\d.]+)\" height=\"([\d.]+)\"[^>]*>")
_LINK = re.compile(r'<a xlink:href="[^"?]*(\?[^"]*)">')
_DESCRIPTION = re.compile(r' (?:role="graphics-\w+"|aria-(?:roledescription|label)="[^"]*")')
_ID = re.compile(r"(\bid=\"|url\(#)([\w-]+)")


def inlined(svg: str, title: str, name: str) -> str:
    """Return a drawing, an `svg` document, as a figure's content.

    `title` says what it shows; `name`, a class, is unique in the page and keeps its ids apart from
    those of other drawings.
    """

    def of_page(tag: re.Match[str]) -> str:
        # Its marks are described one by one for screen readers; the table says the same, and
        # better. A drawing has thousands of them, few with an id: to search all for ids takes long.
        text = _DESCRIPTION.sub("", tag[0])
        if 'id="' in text or "url(#" in text:
            return _ID.sub(rf"\g<1>{name}-\g<2>", text)
        return text

    def root(match: re.Match[str]) -> str:
        width, height = match[1], match[2]
        return (
            f'<svg class="drawing {name}" role="{role}" aria-label="{html.escape(title)}" '
            f'width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        )

    # Vega completes addresses by one of its own; links of marks are a pointer's only, as the table
    # beside the chart has them for keys and screen readers.
    svg, links = _LINK.subn(r'<a href="\1" tabindex="-1" aria-hidden="true">', svg)
    role = "group" if links else "img"
    return _ROOT.sub(root, _TAG.sub(of_page, svg), count=1)
