"""Each performance claim as a command that runs us and the peer or floor in one go.

`python -m benchmarks` runs all of them; `python -m benchmarks.NAME` one.
"""
