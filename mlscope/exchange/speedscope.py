"""speedscope's JSON: an evented profile for each thread and stream, with shared frames."""

import json
from typing import IO

from mlscope.exchange.traces import HOST, Trace, lanes, nested

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def write(trace: Trace, file: IO[bytes]) -> None:
    """Write one run; times are ns from its origin."""
    frames: dict[str, int] = {}
    profiles = []
    for (device, thread, number), spans in sorted(lanes(trace.spans).items()):
        events = [
            {
                "type": "O" if is_begin else "C",
                "frame": frames.setdefault(span.name, len(frames)),
                "at": at_ns,
            }
            for is_begin, at_ns, span in nested(spans)
        ]
        place = f"host {thread}" if device == HOST else f"device {device} stream {thread}"
        profiles.append(
            {
                "type": "evented",
                "name": place + (f" ({number})" if number else ""),
                "unit": "nanoseconds",
                "startValue": events[0]["at"],
                "endValue": max(event["at"] for event in events),
                "events": events,
            }
        )
    document = {
        "$schema": _SCHEMA,
        "name": f"{trace.evaluation} {trace.run.run}",
        "exporter": "mlscope",
        "shared": {"frames": [{"name": name} for name in frames]},
        "profiles": profiles,
    }
    file.write(json.dumps(document, separators=(",", ":")).encode())
