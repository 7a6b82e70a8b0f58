"""Loads that the scheduler issues itself, query by query, at their due times."""
