#!/bin/sh
# Run once by the database image, when it makes its data: the services' role owns their database
# and is no superuser. The superuser is left without a password, so that nobody on the network is it.
set -eu
psql --no-psqlrc --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
    --set password="$(cat "$MLSCOPE_DATABASE_PASSWORD_FILE")" <<'SQL'
CREATE ROLE mlscope LOGIN PASSWORD :'password';
ALTER DATABASE mlscope OWNER TO mlscope;
ALTER ROLE CURRENT_USER PASSWORD NULL;
SQL
