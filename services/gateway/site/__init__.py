"""Handlers of the pages, one file a page: they ask the bus and render a view of `pages`."""
