"""What the role `mlscope_reader` sees: views of the tables, with public rows only (I/O).

The views are in a schema of the role's name, which PostgreSQL searches first for it: its queries
name tables as those of the owner do. They depend on the tables, so they are dropped before
migrations and made anew after them. One on which somebody's own view depends stays, and is replaced
in place. What somebody put beside them has no namesake among the tables; it is neither dropped,
replaced nor granted.
"""

from typing import Any

import psycopg

_DROP = """
DO $drop$
DECLARE
    name text;
    dependent text;
    dependents text[] := '{}';
BEGIN
    FOR name IN
        SELECT relname FROM pg_class
        WHERE relnamespace = to_regnamespace('mlscope_reader') AND relkind = 'v'
            AND pg_get_userbyid(relowner) = current_user
            -- Others are views that somebody put beside ours.
            AND to_regclass(format('public.%I', relname)) IS NOT NULL
        -- The view of trends reads two others.
        ORDER BY relname <> 'trend'
    LOOP
        BEGIN
            EXECUTE format('DROP VIEW mlscope_reader.%I', name);
        EXCEPTION WHEN dependent_objects_still_exist THEN
            GET STACKED DIAGNOSTICS dependent = PG_EXCEPTION_DETAIL;
            dependents := dependents || dependent;
        END;
    END LOOP;
    PERFORM set_config('mlscope.dependents', array_to_string(dependents, chr(10)), true);
    PERFORM set_config('mlscope.beside', ARRAY(
        SELECT oid FROM pg_class
        WHERE relnamespace = to_regnamespace('mlscope_reader')
            AND relkind IN ('r', 'p', 'v', 'm', 'f')
            AND to_regclass(format('public.%I', relname)) IS NULL
    )::text, true);
END
$drop$
"""

_MAKE = """
DO $make$
DECLARE
    relation record;
    taken text;
    path text := current_setting('search_path');
BEGIN
    -- A role that may make no schema has no views for others: they see nothing.
    IF to_regnamespace('mlscope_reader') IS NULL THEN
        IF NOT has_database_privilege(current_database(), 'CREATE') THEN
            RETURN;
        END IF;
        CREATE SCHEMA mlscope_reader;
    END IF;
    IF NOT has_schema_privilege('mlscope_reader', 'CREATE') THEN
        RETURN;
    END IF;
    -- A table got the name of what somebody put beside our views: that would be replaced, or
    -- dropped by the next migrations.
    SELECT string_agg(
        pg_describe_object('pg_class'::regclass, oid, 0)
            || ' has the name of a new table, so yours needs another one',
        chr(10) ORDER BY relname
    ) INTO taken
    FROM pg_class
    WHERE oid = ANY(current_setting('mlscope.beside')::oid[])
        AND to_regclass(format('public.%I', relname)) IS NOT NULL;
    IF taken IS NOT NULL THEN
        RAISE EXCEPTION 'a name is taken'
            USING ERRCODE = 'dependent_objects_still_exist', DETAIL = taken;
    END IF;
    FOR relation IN
        -- run_key where there is one, else evaluation. What has neither is not shown.
        SELECT relname AS name, max(attname::text) AS key
        FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm')
            AND pg_get_userbyid(relowner) = current_user
            AND attname IN ('run_key', 'evaluation') AND attnum > 0 AND NOT attisdropped
        GROUP BY relname
    LOOP
        -- A barrier: else a condition that fails with a row's value would tell hidden rows.
        EXECUTE format(
            'CREATE OR REPLACE VIEW mlscope_reader.%1$I WITH (security_barrier) AS
            SELECT * FROM public.%1$I AS shown WHERE EXISTS (
                SELECT FROM public.run_visibility AS judged
                WHERE judged.%2$I = shown.%2$I AND judged.is_visible
            )',
            relation.name, relation.key
        );
    END LOOP;
    IF to_regclass('public.trend') IS NOT NULL THEN
        -- Its rows are sums over runs: the same query, of those that the role sees.
        PERFORM set_config('search_path', 'public', true);
        SELECT pg_get_viewdef('public.trend'::regclass) AS query INTO relation;
        PERFORM set_config('search_path', 'mlscope_reader, public', true);
        EXECUTE 'CREATE OR REPLACE VIEW mlscope_reader.trend WITH (security_barrier) AS '
            || relation.query;
        PERFORM set_config('search_path', path, true);
    END IF;
END
$make$
"""

_GRANT = """
DO $grant$
DECLARE
    name text;
BEGIN
    IF to_regrole('mlscope_reader') IS NULL THEN
        RETURN;
    END IF;
    -- Up to 0.1 the role could read all tables.
    ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE SELECT ON TABLES FROM mlscope_reader;
    FOR name IN
        SELECT relname FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm')
            AND pg_get_userbyid(relowner) = current_user
    LOOP
        EXECUTE format('REVOKE ALL ON public.%I FROM mlscope_reader', name);
    END LOOP;
    -- Without a schema, or in one of somebody else, there are no views to read.
    IF to_regnamespace('mlscope_reader') IS NULL
        OR NOT has_schema_privilege('mlscope_reader', 'CREATE') THEN
        RETURN;
    END IF;
    GRANT USAGE ON SCHEMA mlscope_reader TO mlscope_reader;
    FOR name IN
        SELECT relname FROM pg_class
        WHERE relnamespace = 'mlscope_reader'::regnamespace AND relkind = 'v'
            AND pg_get_userbyid(relowner) = current_user
            -- Others, beside ours, may show private rows.
            AND to_regclass(format('public.%I', relname)) IS NOT NULL
    LOOP
        EXECUTE format('GRANT SELECT ON mlscope_reader.%I TO mlscope_reader', name);
    END LOOP;
END
$grant$
"""

_HAS_TABLES = "SELECT current_schema() = 'public' AND to_regclass('run_visibility') IS NOT NULL"


def drop_views(session: psycopg.Connection[Any]) -> str:
    """Drop the views in the transaction of `session`, but those on which something else depends.

    Return PostgreSQL's lines about what that is, or ''. Raises psycopg's errors.
    """
    session.execute(_DROP)
    found = session.execute("SELECT current_setting('mlscope.dependents')").fetchone()
    return str(found[0]) if found else ""


def make_views(session: psycopg.Connection[Any]) -> None:
    """Make the views in the transaction of `session`, and let the role, if it is there, read them.

    It may read nothing else. Without a table that says which rows are public there are no views.
    `drop_views` comes first in the transaction, and notes what somebody put beside them. Raises
    psycopg's errors; DependentObjectsStillExist also if a table has got the name of one of those.
    """
    if session.execute(_HAS_TABLES).fetchone() == (True,):
        session.execute(_MAKE)
        session.execute(_GRANT)
