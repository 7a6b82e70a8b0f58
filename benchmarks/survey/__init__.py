"""What mlscope measures of many models, as resumable commands; their bundles are read here.

`python -m benchmarks.survey` measures (on a GPU or a CPU), `tables` makes tables of what it left,
`truth` compares with kernels of known length.
"""
