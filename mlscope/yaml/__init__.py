"""YAML that anybody may send: its bounds, and single values. Pure."""
