"""What each connection may do: rights, the permissions made of them, and accounts."""
