"""An evaluation's rows as Polars frames, as the analyses read them."""
