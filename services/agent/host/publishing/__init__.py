"""How the facts of an order reach the log, or a bundle: sent, counted, dropped where it is full."""
