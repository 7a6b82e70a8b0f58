"""The analyses by family, one a file: the tables that a report shows together."""
