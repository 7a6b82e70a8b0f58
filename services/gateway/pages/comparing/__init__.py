"""The page that compares evaluations: conditions, ratios, tables with their charts. Pure."""
