"""Prepares the samples of streamed runs in processes of their own.

Threads would take the interpreter from the thread that predicts: beside 15 of them a model of many
small launches takes 99 times as long. `arena` is the memory that worker and processes share, with
the model's input arrays in it; `pool` is what the worker calls; `child` runs in each process, and
`fork_server` in the process that they are forked from. One more of them post-processes: `finishing`
is what the worker calls, `finishing_child` runs there.
"""
