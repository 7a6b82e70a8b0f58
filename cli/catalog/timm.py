"""timm's models: the smaller ones of every family, with the metadata of their default weights.

timm has over a thousand architectures; `PER_FAMILY` of each of its modules are enough to have
every kind. The rest run just so: `builder: timm.create_model` and the name.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from cli.catalog.entries import IMAGENET_LABELS, Entry, LabelFiles, Picture

PER_FAMILY = 4
MOST_PARAMETERS = 100_000_000
_UNBUILDABLE = (RuntimeError, NotImplementedError, ValueError, TypeError, AssertionError)
"""What a model raises that does not build, or run, without memory."""


def entries(timm: Any, torch: Any, labels: LabelFiles) -> Iterator[Entry]:
    """Yield the chosen models, by name; each is built once without memory to be counted."""
    families: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for name in timm.list_models():
        config = timm.models.get_pretrained_cfg(name)
        if config is None or not config.hf_hub_id or config.num_classes != 1000:
            continue
        if (parameters := _parameters(timm, torch, name)) <= MOST_PARAMETERS:
            families[timm.models.model_entrypoint(name).__module__].append((parameters, name))
    chosen = sorted(each for family in families.values() for each in sorted(family)[:PER_FAMILY])
    for parameters, name in sorted(chosen, key=lambda each: each[1]):
        config = timm.models.get_pretrained_cfg(name)
        sizes = {"parameters": parameters, "gmacs": _gmacs(timm, torch, name, config.input_size)}
        yield _entry(name, config, sizes, labels)


def package(timm: Any) -> str:
    """Return what the entries come from."""
    return f"timm {timm.__version__}"


def _parameters(timm: Any, torch: Any, name: str) -> int:
    try:
        with torch.device("meta"):
            model = timm.create_model(name, pretrained=False)
    except _UNBUILDABLE:
        return MOST_PARAMETERS + 1
    return sum(each.numel() for each in model.parameters())


def _gmacs(timm: Any, torch: Any, name: str, size: Sequence[int]) -> float | None:
    """Return 10^9 multiply-adds of one picture, as torch counts them; None where it can't.

    Counted without memory: matrix products and convolutions, half a FLOP each.
    """
    counter = import_module("torch.utils.flop_counter").FlopCounterMode(display=False)
    try:
        with torch.device("meta"):
            model = timm.create_model(name, pretrained=False).eval().requires_grad_(False)
            picture = torch.empty(1, *size)
        with counter:
            model(picture)
    except _UNBUILDABLE:
        return None
    flops: int = counter.get_total_flops()
    return round(flops / 2e9, 4)


def _entry(name: str, config: Any, sizes: Mapping[str, Any], labels: LabelFiles) -> Entry:
    return Entry(
        name=f"timm-{name.replace('_', '-')}",
        task="image classification",
        description=f"{name} of timm, weights {config.tag or 'default'}.",
        framework="pytorch",
        framework_version=">=2.0",
        license=config.license or "",
        references=_references(config),
        inputs=[_input(config)],
        outputs=[_output(config.num_classes)],
        model={
            "base_url": f"hf://{config.hf_hub_id}@main/",
            "weights_path": "model.safetensors",
            "builder": "timm.create_model",
            "arguments": {"model_name": name, "pretrained": False},
            "assets": labels.imagenet(),
        },
        attributes={"weights": config.tag, **sizes, "training_dataset": "ImageNet-1K"},
        dataset="photos",
    )


def _input(config: Any) -> dict[str, Any]:
    channels, height, width = config.input_size
    picture = Picture(
        channels=channels,
        height=height,
        width=width,
        resize=int(height / config.crop_pct),
        mean=config.mean,
        deviation=config.std,
        method=config.interpolation,
    )
    return {
        "type": "image",
        "layer_name": "x",
        "element_type": "float32",
        "shape": picture.shape(),
        "steps": picture.steps(),
    }


def _output(classes: int) -> dict[str, Any]:
    return {
        "type": "classification",
        "layer_name": "scores",
        "element_type": "float32",
        "shape": [-1, classes],
        "steps": [{"softmax": None}, {"topk": None, "k": 5, "labels": IMAGENET_LABELS}],
    }


def _references(config: Any) -> list[str]:
    papers = config.paper_ids or []
    papers = [papers] if isinstance(papers, str) else list(papers)
    return [*papers, *([config.origin_url] if config.origin_url else [])]
