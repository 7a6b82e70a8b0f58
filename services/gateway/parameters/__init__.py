"""What requests ask in their addresses: query strings, windows of traces, ids, values of paths."""
