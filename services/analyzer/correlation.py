"""Which span lies in which: what capture said, else what contains it.

Containment follows XSP III-C: the span around another is of the nearest shallower level that the
run has. Where none contains it, it has no parent, and says so.
"""

import polars as pl

from services.analyzer.frames import LAYER_LEVEL, ROOT_LEVEL

CAPTURED, CONTAINMENT, NONE = "captured", "containment", "none"


def span_tree(spans: pl.DataFrame) -> pl.DataFrame:
    """Return span, parent, layer and method of one attempt's spans (frames.SPAN_SCHEMA).

    `layer` is the layer span it is or lies in, null above the layers.
    """
    known = spans.filter(pl.col("parent").is_not_null() | (pl.col("level") <= ROOT_LEVEL))
    orphans = spans.filter(pl.col("parent").is_null() & (pl.col("level") > ROOT_LEVEL))
    found = [_contained(part, spans) for part in orphans.partition_by("level")]
    captured = known.select(
        "span",
        "parent",
        "level",
        pl.when(pl.col("parent").is_null())
        .then(pl.lit(NONE))
        .otherwise(pl.lit(CAPTURED))
        .alias("method"),
    )
    tree = pl.concat([captured, *found])
    return _with_layers(tree).select("span", "parent", "layer", "method")


def _contained(orphans: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """Give spans of one level the newest span of the level above that still runs at their end."""
    level = orphans["level"][0]
    above = spans.filter(pl.col("level") < level)
    above = above.filter(pl.col("level") == pl.col("level").max())
    around = above.select(
        pl.col("span").alias("around"),
        "query",
        "start_ns",
        (pl.col("start_ns") + pl.col("duration_ns")).alias("around_end_ns"),
    ).sort("start_ns")
    placed = orphans.sort("start_ns").join_asof(
        around, on="start_ns", by="query", strategy="backward", check_sortedness=False
    )
    inside = pl.col("start_ns") + pl.col("duration_ns") <= pl.col("around_end_ns")
    return placed.select(
        "span",
        pl.when(inside).then(pl.col("around")).alias("parent"),
        "level",
        pl.when(inside).then(pl.lit(CONTAINMENT)).otherwise(pl.lit(NONE)).alias("method"),
    )


def _with_layers(tree: pl.DataFrame) -> pl.DataFrame:
    """Add the layer of each span: its own id at the layers' level, below that its parent's."""
    tree = tree.with_columns(
        pl.when(pl.col("level") == LAYER_LEVEL).then(pl.col("span")).alias("layer")
    )
    for level in sorted(tree["level"].unique()):
        if level > LAYER_LEVEL:
            of_parent = tree.select(pl.col("span").alias("parent"), pl.col("layer").alias("theirs"))
            tree = (
                tree.join(of_parent, on="parent", how="left", maintain_order="left")
                .with_columns(
                    pl.when(pl.col("level") == level)
                    .then(pl.col("theirs"))
                    .otherwise(pl.col("layer"))
                    .alias("layer")
                )
                .drop("theirs")
            )
    return tree
