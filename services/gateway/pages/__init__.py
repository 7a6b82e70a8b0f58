"""Pages as functions from messages to HTML. Pure; every text is escaped by `markup`."""
