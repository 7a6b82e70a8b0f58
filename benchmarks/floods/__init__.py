"""What floods of messages and of refusals do to a cluster: two weaknesses that are documented."""
