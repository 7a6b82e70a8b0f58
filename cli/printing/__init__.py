"""What commands print: tables, JSON and CSV on stdout, progress on stderr."""
