"""Small networks of mlscope's own, for tasks that no package brings weights for.

Their weights are random from a seed: they are measured, and their answers mean nothing.
"""

from collections.abc import Iterator
from typing import Any

from tools.catalog.entries import Entry

Port = dict[str, Any]

# The path of release 0.1: a manifest's text can't change under its version.
_PYTORCH = "services.agent.networks.pytorch"
_JAX = "services.agent.networks.jax"
_VERSIONS = {"pytorch": ">=2.0", "jax": ">=0.4.30"}


def entries() -> Iterator[Entry]:
    """Yield every network in every framework it is written in."""
    for scale in (2, 3, 4):
        yield espcn("pytorch", scale)
        yield espcn("jax", scale)
    for framework in ("pytorch", "jax"):
        yield collaborative_filter(framework)
    yield click_model()
    yield keyword_spotter()


def source_packages() -> str:
    """Return what the entries come from."""
    return "mlscope's networks"


def _entry(framework: str, name: str, builder: str, **fields: Any) -> Entry:
    model = {"builder": f"{_PYTORCH if framework == 'pytorch' else _JAX}.{builder}"}
    model |= {"arguments": fields.pop("arguments", {})}
    return Entry(
        name=f"{name}-{framework}",
        framework=framework,
        framework_version=_VERSIONS[framework],
        license="Apache-2.0",
        model=model,
        **fields,
    )


def _port(kind: str, name: str, shape: list[int], **fields: Any) -> Port:
    return {"type": kind, "layer_name": name, "element_type": "float32", "shape": shape, **fields}


def espcn(framework: str, scale: int) -> Entry:
    """Return ESPCN in a framework, which enlarges pictures `scale` times."""
    side, layout = 72, "NCHW" if framework == "pytorch" else "NHWC"
    steps = [
        {"decode": None, "color_mode": "RGB"},
        {"resize": None, "dimensions": [3, side, side], "method": "bicubic"},
        {"normalize": None, "mean": 0.0, "scale": 255.0},
        {"cast": None, "element_type": "float32", "data_layout": layout},
    ]
    image = [{"image": None, "data_layout": layout, "mean": 0.0, "scale": 255.0}]
    return _entry(
        framework,
        f"espcn-x{scale}",
        "espcn",
        task="image enhancement",
        description=f"ESPCN: pictures enlarged {scale} times.",
        arguments={"scale": scale},
        references=["https://arxiv.org/abs/1609.05158"],
        inputs=[_port("image", "image", _shape(side, layout), steps=steps)],
        outputs=[_port("image", "upscaled", _shape(side * scale, layout), steps=image)],
        attributes={},
        dataset="photos",
    )


def _shape(side: int, layout: str) -> list[int]:
    return [-1, 3, side, side] if layout == "NCHW" else [-1, side, side, 3]


def collaborative_filter(framework: str) -> Entry:
    """Return neural collaborative filtering in a framework."""
    return _entry(
        framework,
        "collaborative-filter",
        "collaborative_filter",
        task="recommendation",
        description="Neural collaborative filtering of MovieLens 1M's size: a user and an item.",
        references=["https://arxiv.org/abs/1708.05031"],
        inputs=[_port("raw", name, [-1, 1], element_type="int32") for name in ("user", "item")],
        outputs=[_port("raw", "likelihood", [-1, 1])],
        attributes={},
        dataset="pairs",
    )


def click_model() -> Entry:
    """Return DLRM in PyTorch."""
    return _entry(
        "pytorch",
        "click-model",
        "click_model",
        task="recommendation",
        description="DLRM of the Criteo logs' form: 13 numbers and 26 tables of 1,000 rows.",
        references=["https://arxiv.org/abs/1906.00091"],
        inputs=[
            _port("raw", "dense", [-1, 13]),
            _port("raw", "sparse", [-1, 26], element_type="int32"),
        ],
        outputs=[_port("raw", "likelihood", [-1, 1])],
        attributes={},
        dataset="clicks",
    )


def keyword_spotter() -> Entry:
    """Return a convolutional network over spectrograms in JAX."""
    steps = [
        {"audio_decode": None, "channels": "mono"},
        {"resample": None, "rate_hz": 16000},
        {"spectrogram": None, "window": 400, "hop": 160, "mels": 40, "log": "ln"},
    ]
    return _entry(
        "jax",
        "keyword-spotter",
        "keyword_spotter",
        task="audio classification",
        description="A convolutional network over a second's mel spectrogram: one of 12 words.",
        inputs=[_port("audio", "spectrogram", [-1, 40, 101], steps=steps)],
        outputs=[
            _port("classification", "scores", [-1, 12], steps=[{"softmax": None}, {"topk": None}])
        ],
        attributes={},
        dataset="sounds",
    )
