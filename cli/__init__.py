"""The command line: `mlscope …`, and the local cluster behind `mlscope up`."""
