"""Small JAX models, built by import path as a manifest would."""

from typing import Any

import jax
import jax.numpy as jnp


def dense(seed: int = 0) -> tuple[Any, Any]:
    """Scores of a row, and random parameters."""
    weights = jax.random.normal(jax.random.key(seed), (6, 4))
    return _apply, {"layer": {"kernel": weights, "bias": jnp.ones(4)}}


def _apply(parameters: Any, x: Any) -> Any:
    return jnp.tanh(x) @ parameters["layer"]["kernel"] + parameters["layer"]["bias"]


def same() -> Any:
    """Return the input itself."""
    return lambda x: x


def difference() -> Any:
    """Two inputs whose order matters."""

    def subtract(a: Any, b: Any) -> Any:
        return {"scores": a - b, "more": [a]}

    return subtract


def fails() -> Any:
    """No model."""
    raise RuntimeError("no such luck")


def scoped() -> Any:
    """Two named parts, too large to be made one."""

    def apply(x: Any) -> Any:
        with jax.named_scope("encode"):
            hidden = jnp.tanh(x @ jnp.full((6, 16), 0.1))
        with jax.named_scope("score"):
            return jax.nn.softmax(hidden @ jnp.full((16, 4), 0.2))

    return apply
