"""Pages of the catalog: agents, datasets, frameworks, models and scenarios."""
