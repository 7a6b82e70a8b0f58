"""torch.profiler's events as lines of JSON, whatever chunks they are turned in."""

import json

import pytest

from mlscope.importing.chrome import json_lines


def _torch_events(phases: str) -> bytes:
    """Return events as torch.profiler lays them out, numbered by their thread."""
    told = [
        f'  {{\n    "ph": "{phase}",\n    "name": "}},{{",\n    "tid": {tid}\n    ,\n'
        f'    "args": {{\n      "correlation": {tid}\n    }}\n  }}'
        for tid, phase in enumerate(phases)
    ]
    return ("[\n" + ",\n".join(told) + "\n  ]").encode()


@pytest.mark.parametrize("phases", ["X", "s", "XsfX", "sXf", "BEX", "ssff", "XMiX"])
@pytest.mark.parametrize("chunk_bytes", [1, 150, 1 << 20])
def test_lines_of_chunks_hold_every_event_but_the_arrows(phases: str, chunk_bytes: int) -> None:
    lines = b"\n".join(json_lines(_torch_events(phases), chunk_bytes)).splitlines()
    found = [json.loads(line) for line in lines]
    wanted = [(tid, phase) for tid, phase in enumerate(phases) if phase not in "sf"]
    assert [(each["tid"], each["ph"]) for each in found] == wanted
    assert all(each["args"]["correlation"] == each["tid"] for each in found)


def test_what_is_left_of_a_cut_event_is_no_line_of_json() -> None:
    whole = _torch_events("XX")
    *good, rest = json_lines(whole[:-1].rstrip().removesuffix(b"}") + b', "grid": [1]')
    assert json.loads(b"".join(good).splitlines()[0])["tid"] == 0
    with pytest.raises(ValueError, match="Expecting"):
        json.loads(rest)
