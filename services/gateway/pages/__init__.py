"""Views: pure functions from messages to what a template shows. No HTML; no I/O."""
