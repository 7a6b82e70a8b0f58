"""timm's models: the smaller ones of every family, with the metadata of their default weights.

timm has over a thousand architectures; `PER_FAMILY` of each of its modules are enough to have
every kind. The rest run just so: `builder: timm.create_model` and the name.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from cli.catalog.entries import Entry, Picture

PER_FAMILY = 4
MOST_PARAMETERS = 100_000_000


def entries(timm: Any, torch: Any) -> Iterator[Entry]:
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
        yield _entry(name, parameters, timm.models.get_pretrained_cfg(name))


def package(timm: Any) -> str:
    """Return what the entries come from."""
    return f"timm {timm.__version__}"


def _parameters(timm: Any, torch: Any, name: str) -> int:
    try:
        with torch.device("meta"):
            model = timm.create_model(name, pretrained=False)
    except (RuntimeError, NotImplementedError, ValueError, TypeError, AssertionError):
        return MOST_PARAMETERS + 1
    return sum(each.numel() for each in model.parameters())


def _entry(name: str, parameters: int, config: Any) -> Entry:
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
    return Entry(
        name=f"timm-{name.replace('_', '-')}",
        task="image classification",
        description=f"{name} of timm, weights {config.tag or 'default'}.",
        framework="pytorch",
        framework_version=">=2.0",
        license=config.license or "",
        references=_references(config),
        inputs=[
            {
                "type": "image",
                "layer_name": "x",
                "element_type": "float32",
                "shape": picture.shape(),
                "steps": picture.steps(),
            }
        ],
        outputs=[
            {
                "type": "classification",
                "layer_name": "scores",
                "element_type": "float32",
                "shape": [-1, config.num_classes],
                "steps": [{"softmax": None}, {"topk": None, "k": 5}],
            }
        ],
        model={
            "base_url": f"hf://{config.hf_hub_id}@main/",
            "weights_path": "model.safetensors",
            "builder": "timm.create_model",
            "arguments": {"model_name": name, "pretrained": False},
        },
        attributes={
            "weights": config.tag,
            "parameters": parameters,
            "training_dataset": "ImageNet-1K",
        },
        dataset="photos",
    )


def _references(config: Any) -> list[str]:
    papers = config.paper_ids or []
    papers = [papers] if isinstance(papers, str) else list(papers)
    return [*papers, *([config.origin_url] if config.origin_url else [])]
