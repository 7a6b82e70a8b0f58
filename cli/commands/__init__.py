"""The commands behind the grammar of `cli.arguments`, each imported when it runs."""
