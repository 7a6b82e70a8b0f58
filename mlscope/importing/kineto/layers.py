"""Layers and library calls among torch.profiler's operators. Pure."""

import json

import polars as pl

from mlscope.importing.events import SHAPES
from mlscope.importing.kineto.queries import query_of
from mlscope.importing.kineto.shapes import work_of
from mlscope.importing.nesting import is_outermost
from schemas.level import Level


def layers_and_library_calls(
    operators: pl.DataFrame, roots: pl.DataFrame, *, attributes: bool
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the outermost operators as layers, and those inside them as library calls.

    `operators` have name, start_ns, duration_ns, thread and SHAPES; `roots` are the root spans of
    the queries. With `attributes` those of layers (JSON) hold their shapes and work; without, only
    their index and type, which is faster.
    """
    ordered = operators.sort("thread", "start_ns", -pl.col("duration_ns"), maintain_order=True)
    queries = roots.filter(pl.col("level") == int(Level.APPLICATION))
    query = pl.Series("query", query_of(queries, ordered))
    ordered = ordered.with_columns(query, is_outermost().alias("is_outermost"))
    layers = ordered.filter("is_outermost").sort("start_ns")
    # A layer's index is that of the nth of its name in a query, by first appearance, not its place
    # in the query: the first step often has an operator that others do not have.
    nth = pl.int_range(pl.len()).over("query", "name").alias("nth")
    keys = layers.select("name", nth)
    indices = keys.unique(maintain_order=True).with_row_index("index")
    indexed = keys.join(indices, on=["name", "nth"], how="left", maintain_order="left")
    described = pl.struct("index", pl.col("name").str.split("::").list.last().alias("type"))
    layers = layers.with_columns(
        indexed["index"].cast(pl.Int64),
        pl.lit(int(Level.FRAMEWORK)).alias("level"),
        _shape_attributes(layers) if attributes else pl.lit(None).alias("shape_attributes"),
    ).with_columns(described.struct.json_encode().alias("attributes"))
    with_shapes = pl.col("attributes").str.strip_suffix("}") + pl.col("shape_attributes")
    layers = layers.with_columns(pl.coalesce(with_shapes, "attributes").alias("attributes")).select(
        "name", "start_ns", "duration_ns", "thread", "query", "level", "attributes"
    )
    library_calls = ordered.filter(~pl.col("is_outermost")).select(
        "name", "start_ns", "duration_ns", "thread", pl.lit(int(Level.LIBRARY)).alias("level")
    )
    return layers, library_calls


def _shape_attributes(layers: pl.DataFrame) -> pl.Series:
    """Return the remainder of each layer's attributes (JSON), null where no shapes are known."""
    columns, name = ("name", *SHAPES), "shape_attributes"
    shaped = layers.select(columns).filter(pl.col(SHAPES[0]).is_not_null()).unique()
    if not shaped.height:
        return pl.Series(name, [None] * layers.height, pl.String)
    works = (work_of(*(text or "" for text in row)) for row in shaped.iter_rows())
    texts = [f",{json.dumps(work)[1:]}" if work else None for work in works]
    described = shaped.with_columns(pl.Series(name, texts, pl.String))
    joined = layers.join(described, on=columns, how="left", nulls_equal=True, maintain_order="left")
    return joined[name]
