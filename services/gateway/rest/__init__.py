"""REST: handlers of the paths below `/api`, which answer JSON and files."""
