"""The page that starts evaluations: its fields, what they leave to choose, its view. Pure."""
