"""PyTorch networks of the catalog: super resolution, recommendation, text embedding."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.nn import functional

Tensor: TypeAlias = torch.Tensor


class Espcn(nn.Module):
    """Efficient sub-pixel convolution (Shi et al. 2016): (n, c, h, w) -> (n, c, sh, sw)."""

    def __init__(self, scale: int, channels: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(channels, 64, 5, padding=2),
            nn.Tanh(),
            nn.Conv2d(64, 32, 3, padding=1),
            nn.Tanh(),
            nn.Conv2d(32, channels * scale**2, 3, padding=1),
        )
        self.shuffle = nn.PixelShuffle(scale)

    def forward(self, image: Tensor) -> Tensor:
        """Return the picture enlarged; pixels from 0 to 1, as they come in."""
        upscaled: Tensor = self.shuffle(self.features(image))
        return upscaled


class CollaborativeFilter(nn.Module):
    """Neural collaborative filtering (He et al. 2017): a user and an item -> a score.

    `users` and `items`: rows of the embedding tables; `width`: the length of an embedding.
    """

    def __init__(self, users: int, items: int, width: int) -> None:
        super().__init__()
        self.user_factors = nn.Embedding(users, width)
        self.item_factors = nn.Embedding(items, width)
        self.user_features = nn.Embedding(users, 2 * width)
        self.item_features = nn.Embedding(items, 2 * width)
        self.layers = nn.Sequential(
            nn.Linear(4 * width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width), nn.ReLU()
        )
        self.predict = nn.Linear(2 * width, 1)

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        """Return the likelihood (n, 1), 0 to 1, of each pair of whole numbers (n, 1)."""
        user, item = user.flatten(), item.flatten()
        factors = self.user_factors(user) * self.item_factors(item)
        features = torch.cat([self.user_features(user), self.item_features(item)], dim=1)
        joined = torch.cat([factors, self.layers(features)], dim=1)
        return torch.sigmoid(self.predict(joined))


class ClickModel(nn.Module):
    """A deep learning recommendation model (Naumov et al. 2019), one index a table.

    `dense`: how many numbers it takes beside the indices; `tables`: the rows of each embedding
    table; `width`: the length of an embedding.
    """

    def __init__(self, dense: int, tables: Sequence[int], width: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for rows in tables)
        self.bottom = nn.Sequential(
            nn.Linear(dense, 64), nn.ReLU(), nn.Linear(64, width), nn.ReLU()
        )
        pairs = len(tables) * (len(tables) + 1) // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:
        """Return the likelihood (n, 1) of a click: numbers (n, dense), indices (n, tables)."""
        bottom = self.bottom(dense)
        embedded = [table(sparse[:, place]) for place, table in enumerate(self.tables)]
        vectors = torch.stack([bottom, *embedded], dim=1)
        products = vectors @ vectors.transpose(1, 2)
        size = len(embedded) + 1
        rows, columns = torch.tril_indices(size, size, offset=-1)
        return torch.sigmoid(self.top(torch.cat([bottom, products[:, rows, columns]], dim=1)))


class _Embeddings(nn.Module):
    """Sum of the word, position and token type embeddings of a text."""

    def __init__(self, vocabulary_size: int, width: int, positions: int) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(vocabulary_size, width)
        self.position_embeddings = nn.Embedding(positions, width)
        self.token_type_embeddings = nn.Embedding(2, width)
        self.LayerNorm = nn.LayerNorm(width, eps=1e-12)
        self.register_buffer("position_ids", torch.arange(positions)[None])

    def forward(self, ids: Tensor) -> Tensor:
        places = self.get_buffer("position_ids")[:, : ids.shape[1]]
        kinds = torch.zeros_like(ids)
        summed = self.word_embeddings(ids) + self.position_embeddings(places)
        normed: Tensor = self.LayerNorm(summed + self.token_type_embeddings(kinds))
        return normed


class _Projections(nn.Module):
    """The query, key and value projections of an attention layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)


class _Residual(nn.Module):
    """A dense layer with a residual connection and a layer norm."""

    def __init__(self, inner: int, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(inner, width)
        self.LayerNorm = nn.LayerNorm(width, eps=1e-12)

    def forward(self, value: Tensor, before: Tensor) -> Tensor:
        normed: Tensor = self.LayerNorm(self.dense(value) + before)
        return normed


class _Layer(nn.Module):
    """One encoder layer (Vaswani et al. 2017), with a layer norm after each half."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention = nn.ModuleDict(
            {"self": _Projections(width), "output": _Residual(width, width)}
        )
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, inner)})
        self.output = _Residual(inner, width)

    def forward(self, hidden: Tensor, allowed: Tensor) -> Tensor:
        """Return (n, length, width); `allowed` (n, 1, 1, length) is true where a piece is."""
        projections: Any = self.attention["self"]
        query, key, value = (
            projection(hidden).unflatten(2, (self.heads, -1)).transpose(1, 2)
            for projection in (projections.query, projections.key, projections.value)
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=allowed)
        hidden = self.attention["output"](mixed.transpose(1, 2).flatten(2), hidden)
        inner = functional.gelu(self.intermediate["dense"](hidden))
        final: Tensor = self.output(inner, hidden)
        return final


class SentenceEncoder(nn.Module):
    """BERT (Devlin et al. 2019) with the mean over a text's pieces, scaled to length 1.

    `vocabulary_size`: word pieces; `width`: of the hidden state; `layers`: of the encoder, each of
    that many `heads`; `inner`: the width of the feed-forward part.
    """

    def __init__(
        self, vocabulary_size: int, width: int, layers: int, heads: int, inner: int
    ) -> None:
        super().__init__()
        self.embeddings = _Embeddings(vocabulary_size, width, 512)
        self.encoder = nn.ModuleDict(
            {"layer": nn.ModuleList(_Layer(width, heads, inner) for _ in range(layers))}
        )
        # Published weights include a pooler, which sentence embeddings do not use.
        self.pooler = nn.ModuleDict({"dense": nn.Linear(width, width)})

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return embeddings (n, width) of piece numbers and their mask, both (n, length)."""
        hidden = self.embeddings(input_ids)
        allowed = attention_mask[:, None, None, :].bool()
        for layer in self.encoder["layer"].children():
            hidden = layer(hidden, allowed)
        weights = attention_mask[:, :, None].to(hidden.dtype)
        mean = (hidden * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        return functional.normalize(mean, dim=1)


def espcn(scale: int = 2, channels: int = 3) -> nn.Module:
    """Return a network that enlarges pictures of `channels` by a factor of `scale`."""
    return Espcn(scale, channels)


def collaborative_filter(users: int = 6040, items: int = 3706, width: int = 16) -> nn.Module:
    """Return a recommender with tables of `users` and `items`, by default MovieLens 1M's sizes.

    `width`: the length of an embedding.
    """
    return CollaborativeFilter(users, items, width)


def click_model(
    dense: int = 13, tables: Sequence[int] = (1000,) * 26, width: int = 16
) -> nn.Module:
    """Return a recommender of the Criteo logs' form, by default with small tables.

    `dense`: numeric features; `tables`: the rows of each embedding table; `width`: the length of
    an embedding.
    """
    return ClickModel(dense, tables, width)


def sentence_encoder(
    words: int = 30522, width: int = 384, layers: int = 6, heads: int = 12, inner: int = 1536
) -> nn.Module:
    """Return a text embedder, by default with the sizes of all-MiniLM-L6-v2.

    `words`: pieces in the vocabulary; `width`: the length of an embedding; `layers`: encoder
    layers; `heads`: attention heads in each; `inner`: the width of the feed-forward part.
    """
    return SentenceEncoder(words, width, layers, heads, inner)
