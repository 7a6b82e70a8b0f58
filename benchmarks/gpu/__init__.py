"""What mlscope measures of models on a GPU, as resumable commands; their bundles are read here.

`survey` measures (on the machine with the GPU), `tables` makes tables of what it left, `truth`
compares with kernels of known length.
"""
