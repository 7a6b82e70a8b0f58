"""Charts: a table's Vega-Lite specification with its rows, themed, as SVG, PNG or PDF.

`fitting` and `theme` decide how a chart looks and do no I/O; `drawing` has a process draw it.
"""
