"""JAX networks of the catalog: super resolution, recommendation, text embedding, sound.

Each returns (apply, parameters), the parameters random from `seed`; `apply` is pure.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

Parameters = Mapping[str, Any]
Built = tuple[Callable[..., Any], Parameters]


def espcn(seed: int = 0, scale: int = 2, channels: int = 3) -> Built:
    """Return sub-pixel convolution (Shi et al. 2016): (n, h, w, c) -> (n, sh, sw, c).

    `seed`: of its random parameters; `scale`: the factor s by which it enlarges; `channels`: c.
    """
    keys = jax.random.split(jax.random.key(seed), 3)
    sizes = ((5, channels, 64), (3, 64, 32), (3, 32, channels * scale**2))
    layers = [_convolution(key, *size) for key, size in zip(keys, sizes, strict=True)]

    def apply(parameters: Parameters, image: Any) -> Any:
        first, second, last = parameters["layers"]
        hidden = jnp.tanh(_convolved(image, first))
        packed = _convolved(jnp.tanh(_convolved(hidden, second)), last)
        n, height, width, _ = packed.shape
        blocks = packed.reshape(n, height, width, scale, scale, channels)
        return blocks.transpose(0, 1, 3, 2, 4, 5).reshape(n, height * scale, width * scale, -1)

    return apply, {"layers": layers}


def collaborative_filter(
    seed: int = 0, users: int = 6040, items: int = 3706, width: int = 16
) -> Built:
    """Return generalised matrix factorisation (He et al. 2017): pairs (n, 1) -> scores (n, 1).

    `users` and `items`: rows of the embedding tables; `width`: the length of an embedding; `seed`:
    of its random parameters.
    """
    first, second, third = jax.random.split(jax.random.key(seed), 3)
    parameters = {
        "users": jax.random.normal(first, (users, width)) * 0.1,
        "items": jax.random.normal(second, (items, width)) * 0.1,
        "weight": jax.random.normal(third, (width, 1)),
    }

    def apply(parameters: Parameters, user: Any, item: Any) -> Any:
        factors = parameters["users"][user[:, 0]] * parameters["items"][item[:, 0]]
        return jax.nn.sigmoid(factors @ parameters["weight"])

    return apply, parameters


def sentence_encoder(
    seed: int = 0, words: int = 30522, width: int = 384, layers: int = 6, inner: int = 1536
) -> Built:
    """Return BERT (Devlin et al. 2019) with the mean over a text's pieces, scaled to length 1.

    Inputs are input_ids and attention_mask, whole numbers (n, length); the output is (n, width).
    `words`: pieces in the vocabulary; `layers`: encoder layers; `inner`: the width of the
    feed-forward part; `seed`: of its random parameters. Heads are 32 wide. The parameters have the
    names of the published all-MiniLM-L6-v2.
    """
    keys = iter(jax.random.split(jax.random.key(seed), 16 * (layers + 1)))

    def apply(parameters: Parameters, input_ids: Any, attention_mask: Any) -> Any:
        tables = parameters["embeddings"]
        pieces = tables["word_embeddings"]["weight"][input_ids]
        positions = tables["position_embeddings"]["weight"][: input_ids.shape[1]]
        token_type = tables["token_type_embeddings"]["weight"][0]
        hidden = _normed(tables["LayerNorm"], pieces + positions + token_type)
        blocked = (attention_mask[:, None, None, :] == 0) * jnp.asarray(-1e9, hidden.dtype)
        for number in range(layers):
            hidden = _encoder_layer(parameters["encoder"]["layer"][str(number)], hidden, blocked)
        weights = attention_mask[:, :, None].astype(hidden.dtype)
        mean = (hidden * weights).sum(1) / jnp.maximum(weights.sum(1), 1e-9)
        return mean / jnp.linalg.norm(mean, axis=1, keepdims=True)

    embeddings = {
        "word_embeddings": {"weight": _random(next(keys), words, width)},
        "position_embeddings": {"weight": _random(next(keys), 512, width)},
        "token_type_embeddings": {"weight": _random(next(keys), 2, width)},
        "LayerNorm": _norm(width),
        "position_ids": jnp.arange(512)[None],
    }
    encoder_layers: dict[str, Parameters] = {}
    for number in range(layers):
        projections = {n: _dense(next(keys), width, width) for n in ("query", "key", "value")}
        attention = {"dense": _dense(next(keys), width, width), "LayerNorm": _norm(width)}
        encoder_layers[str(number)] = {
            "attention": {"self": projections, "output": attention},
            "intermediate": {"dense": _dense(next(keys), inner, width)},
            "output": {"dense": _dense(next(keys), width, inner), "LayerNorm": _norm(width)},
        }
    pooler = {"dense": _dense(next(keys), width, width)}
    return apply, {"embeddings": embeddings, "encoder": {"layer": encoder_layers}, "pooler": pooler}


def keyword_spotter(seed: int = 0, classes: int = 12) -> Built:
    """Return a small convolutional network over a spectrogram: (n, bands, time) -> (n, classes)."""
    first, second, third = jax.random.split(jax.random.key(seed), 3)
    parameters = {
        "first": _convolution(first, 3, 1, 16),
        "second": _convolution(second, 3, 16, 32),
        "last": _dense(third, classes, 32),
    }

    def apply(parameters: Parameters, spectrogram: Any) -> Any:
        hidden = jax.nn.relu(_convolved(spectrogram[..., None], parameters["first"]))
        hidden = jax.nn.relu(_convolved(hidden[:, ::2, ::2], parameters["second"]))
        return _dense_output(parameters["last"], hidden.mean((1, 2)))

    return apply, parameters


def _encoder_layer(parameters: Parameters, hidden: Any, blocked: Any) -> Any:
    """Return (n, length, width); `blocked` is added to the attention scores."""
    attention = parameters["attention"]
    n, length, width = hidden.shape
    query, key, value = (
        _dense_output(attention["self"][name], hidden)
        .reshape(n, length, width // 32, 32)
        .swapaxes(1, 2)
        for name in ("query", "key", "value")
    )
    scores = query @ key.swapaxes(2, 3) / jnp.sqrt(jnp.asarray(query.shape[3], query.dtype))
    mixed = jax.nn.softmax(scores + blocked) @ value
    joined = mixed.swapaxes(1, 2).reshape(hidden.shape)
    hidden = _residual(attention["output"], joined, hidden)
    inner = jax.nn.gelu(
        _dense_output(parameters["intermediate"]["dense"], hidden), approximate=False
    )
    return _residual(parameters["output"], inner, hidden)


def _residual(parameters: Parameters, value: Any, before: Any) -> Any:
    return _normed(parameters["LayerNorm"], _dense_output(parameters["dense"], value) + before)


def _normed(parameters: Parameters, value: Any) -> Any:
    mean, variance = value.mean(-1, keepdims=True), value.var(-1, keepdims=True)
    shares = (value - mean) / jnp.sqrt(variance + 1e-12)
    return shares * parameters["weight"] + parameters["bias"]


def _dense_output(parameters: Parameters, value: Any) -> Any:
    return value @ parameters["weight"].T + parameters["bias"]


def _convolved(image: Any, parameters: Parameters) -> Any:
    answer = jax.lax.conv_general_dilated(
        image, parameters["weight"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return answer + parameters["bias"]


def _random(key: Any, *shape: int) -> Any:
    return jax.random.normal(key, shape) * 0.02


def _norm(width: int) -> Parameters:
    return {"weight": jnp.ones(width), "bias": jnp.zeros(width)}


def _dense(key: Any, out: int, width: int) -> Parameters:
    return {"weight": jax.random.normal(key, (out, width)) * width**-0.5, "bias": jnp.zeros(out)}


def _convolution(key: Any, size: int, inner: int, outer: int) -> Parameters:
    weight = jax.random.normal(key, (size, size, inner, outer)) * (size * size * inner) ** -0.5
    return {"weight": weight, "bias": jnp.zeros(outer)}
