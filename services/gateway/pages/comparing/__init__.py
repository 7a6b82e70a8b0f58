"""Documents over whole evaluations: the comparison of several, the report of one. Pure."""
