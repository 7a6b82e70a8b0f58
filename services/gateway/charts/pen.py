"""The process that draws: reads specifications from its input, writes pictures to its output.

It is a process because Vega runs inside and holds Python's lock while it draws. It ends with its
input. A request and an answer are each a length of 4 bytes and that many bytes: JSON with `form`
and `spec`; a byte that says whether it was drawn (1) or failed (0), and the picture or the reason.
"""

import json
import re
import sys
from typing import Any, BinaryIO

VEGA_LITE = "6.4"
"""The version of Vega-Lite that draws; the browser's is the same."""
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_PIXELS = 2.0
"""Pixels of a PNG for each of CSS."""


def main(source: BinaryIO, sink: BinaryIO) -> None:
    """Draw what `source` asks for, one after the other, until it ends."""
    while len(head := source.read(4)) == 4:
        request = json.loads(source.read(int.from_bytes(head, "big")))
        try:
            answer = b"\1" + picture(writable(request["spec"]), request["form"])
        except ValueError as error:
            answer = b"\0" + str(error)[:2000].encode()
        sink.write(len(answer).to_bytes(4, "big") + answer)
        sink.flush()


def writable(value: Any) -> Any:
    """Return a part of a specification with U+FFFD for each character that no SVG may have.

    Names of kernels and models are what others chose; the engine would end the process.
    """
    if isinstance(value, str):
        return _NOT_IN_XML.sub("\ufffd", value)
    if isinstance(value, list):
        return [writable(part) for part in value]
    if isinstance(value, dict):
        return {writable(name): writable(part) for name, part in value.items()}
    return value


def picture(spec: dict[str, Any], form: str) -> bytes:
    """Return a specification drawn as `form`: svg, png or pdf. Raises ValueError."""
    # Only this process loads it: 84 MB, and an engine of JavaScript.
    import vl_convert

    if form == "png":
        return bytes(vl_convert.vegalite_to_png(spec, vl_version=VEGA_LITE, scale=_PIXELS))
    if form == "pdf":
        return bytes(vl_convert.vegalite_to_pdf(spec, vl_version=VEGA_LITE))
    return str(vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE)).encode()


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer)
