"""Parts of `benchmarks.timeline`: servers with large runs, pages, and what is measured in them."""
