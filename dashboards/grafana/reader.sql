-- A role that changes nothing and reads the rows of evaluations that the whole cluster may see, for
-- Grafana's data source: no private evaluations, and none whose request mlscope has not read.
-- As a superuser, at any time and again, with the role that owns the tables:
--     psql ADDRESS -v owner=mlscope -v password=SECRET -f reader.sql

DO $$
BEGIN
    IF to_regrole('mlscope_reader') IS NULL THEN
        CREATE ROLE mlscope_reader;
    END IF;
END
$$;
ALTER ROLE mlscope_reader LOGIN PASSWORD :'password';
ALTER ROLE mlscope_reader SET search_path = mlscope_reader, public;
ALTER ROLE mlscope_reader SET default_transaction_read_only = on;
ALTER ROLE mlscope_reader SET statement_timeout = '30s';

-- An older reader.sql granted all tables.
ALTER DEFAULT PRIVILEGES FOR ROLE :"owner" IN SCHEMA public REVOKE SELECT ON TABLES FROM mlscope_reader;
REVOKE ALL ON ALL TABLES IN SCHEMA public FROM mlscope_reader;

-- The views of mlscope have the names and the owner of its tables; others beside them may show
-- private rows. Migrations (`mlscope up`, `mlscope provision`) that make the views grant them too.
DO $$
DECLARE
    name text;
BEGIN
    IF to_regnamespace('mlscope_reader') IS NULL THEN
        RETURN;
    END IF;
    GRANT USAGE ON SCHEMA mlscope_reader TO mlscope_reader;
    FOR name IN
        SELECT shown.relname
        FROM pg_class AS shown JOIN pg_class AS stored USING (relname, relowner)
        WHERE shown.relnamespace = to_regnamespace('mlscope_reader') AND shown.relkind = 'v'
            AND stored.relnamespace = to_regnamespace('public')
    LOOP
        EXECUTE format('GRANT SELECT ON mlscope_reader.%I TO mlscope_reader', name);
    END LOOP;
END
$$;
