#!/bin/sh
# Run once by the database image, when it makes its data: the services' role owns their database
# and is no superuser. The superuser is left without a password, so that nobody on the network is it.
# The image's entrypoint has read POSTGRES_PASSWORD as root: its file belongs to the services.
set -eu
psql --no-psqlrc --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
    --set password="$POSTGRES_PASSWORD" <<'SQL'
CREATE ROLE mlscope LOGIN PASSWORD :'password';
ALTER DATABASE mlscope OWNER TO mlscope;
ALTER ROLE CURRENT_USER PASSWORD NULL;
SQL
