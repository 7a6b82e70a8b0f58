"""What a database holds, as a digest of each table: all but the times at which rows were stored."""

ROWS = ("run", "batch", "span", "span_name", "query", "output")
ANALYZED = ("analysis", "analysis_row", "headline", "span_tree")
_TIMES = "{ended_at,recorded_at,purged_at,stored_at,made_at}"


def digest_query(table: str) -> str:
    """Return the query for the digest of a table's rows, and their number."""
    entries = f"SELECT (to_jsonb(t) - '{_TIMES}'::text[])::text AS entry FROM {table} AS t"
    digest = "md5(coalesce(string_agg(entry, ' ' ORDER BY entry), ''))"
    return f"SELECT {digest}, count(*) FROM ({entries}) AS entries"
