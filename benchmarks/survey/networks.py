"""Networks of the survey: built once for all batch sizes, and those that have no builder."""

import json
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any

from torch import Tensor, nn


class _Encoder(nn.Module):
    """A transformers model that answers with one tensor."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the last hidden state of token numbers [batch, length]."""
        hidden: Tensor = self.model(input_ids=tokens).last_hidden_state
        return hidden


def bert_base() -> nn.Module:
    """Return BERT-base (12 layers, 768 wide, 12 heads) with random weights."""
    from transformers import BertConfig, BertModel

    return _Encoder(BertModel(BertConfig()))


def small_classifier() -> nn.Module:
    """Return a network that scores pictures [batch, 3, height, width] by 1,000 classes."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 7, stride=8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 1000)
    )


def cached_network(builder: str, arguments: Mapping[str, Any]) -> nn.Module:
    """Return what a builder makes; the same object while no other is asked for.

    A survey opens each model ten times, and VGG's weights alone take seconds to draw.
    """
    return _built(builder, json.dumps(dict(arguments), sort_keys=True))


@lru_cache(maxsize=1)
def _built(builder: str, arguments: str) -> nn.Module:
    module, _, function = builder.rpartition(".")
    network: nn.Module = getattr(import_module(module), function)(**json.loads(arguments))
    return network
