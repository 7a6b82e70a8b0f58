#!/usr/bin/env bash
# Stand-ins for the base images compose.yaml names, for a machine that can pull none: Debian with
# this machine's certificates and pip settings, under the very tags. Only missing tags are made.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
have() { docker image inspect "$1" >/dev/null 2>&1; }
standin() { # of the base that only stand-ins have
    [ "$(docker image inspect --format '{{index .RootFS.Layers 0}}' "$1")" \
        = "$(docker image inspect --format '{{index .RootFS.Layers 0}}' mlscope-standin-base)" ]
}
build() { # tag, with a Dockerfile on standard input
    docker build --quiet --tag "$1" --file - "$work" >/dev/null
}

if ! have mlscope-standin-base; then
    command -v debootstrap >/dev/null || { echo "debootstrap is missing: apt-get install debootstrap"; exit 1; }
    mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null \
        | sed -n 's/^URIs: *//p; s/^deb  *\(http[^ ]*\) .*/\1/p' | grep -v security | sed 1q || true)
    debootstrap --variant=minbase \
        --include=ca-certificates,python3,python3-pip,python3-venv,wget,postgresql \
        bookworm "$work/root" "$mirror" >"$work/log" 2>&1 || { tail "$work/log"; exit 1; }
    rm -rf "$work/root/var/cache/apt" "$work/root/var/lib/apt/lists"
    cp -L /etc/ssl/certs/ca-certificates.crt "$work/root/etc/ssl/certs/"
    rm -f "$work"/root/usr/lib/python3*/EXTERNALLY-MANAGED
    ln -sf python3 "$work/root/usr/bin/python"
    if [ -n "${PIP_CONFIG_FILE:-}" ]; then cp "$PIP_CONFIG_FILE" "$work/root/etc/pip.conf"
    elif [ -f /etc/pip.conf ]; then cp /etc/pip.conf "$work/root/etc/"; fi
    tar -C "$work/root" -c . | docker import \
        --change "ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt" \
        --change "ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt" - mlscope-standin-base >/dev/null
    rm -rf "$work/root"
fi

have python:3.11-slim || docker tag mlscope-standin-base python:3.11-slim

# Made anew each time, unless they are the real ones: what they do changes with compose.yaml.
if ! have nats:2.12-alpine || standin nats:2.12-alpine; then
    cp "$(command -v "${NATS_SERVER:-nats-server}")" "$work/nats-server"
    cp "$(dirname "$0")/nc" "$work/nc"
    build nats:2.12-alpine <<'DOCKER'
FROM mlscope-standin-base
COPY nats-server nc /usr/local/bin/
ENTRYPOINT ["nats-server"]
DOCKER
fi

if ! have timescale/timescaledb:2.29.2-pg17 || standin timescale/timescaledb:2.29.2-pg17; then
    cat >"$work/entrypoint" <<'SH'
#!/bin/bash
# What the real image's entrypoint does, as far as compose.yaml relies on it.
set -e
bin=$(echo /usr/lib/postgresql/*/bin)
data=/var/lib/postgresql/data
POSTGRES_PASSWORD=$(cat "$POSTGRES_PASSWORD_FILE") && export POSTGRES_PASSWORD
mkdir -p "$data" /run/postgresql && chown -R postgres "$data" /run/postgresql && chmod 700 "$data"
if [ ! -s "$data/PG_VERSION" ]; then
    echo "$POSTGRES_PASSWORD" >/tmp/password && chown postgres /tmp/password
    su postgres -c "$bin/initdb -D $data -U $POSTGRES_USER -E UTF8 --locale=C.UTF-8 --auth=scram-sha-256 --pwfile=/tmp/password"
    rm /tmp/password
    echo "host all all all scram-sha-256" >>"$data/pg_hba.conf"
    su postgres -c "echo \"CREATE DATABASE $POSTGRES_DB\" | $bin/postgres --single -D $data postgres"
    export PATH="$bin:$PATH" PGHOST=/run/postgresql
    sed -i '1ilocal all all trust' "$data/pg_hba.conf"
    su postgres -c "$bin/pg_ctl -D $data -w -o '-c listen_addresses=' start" >/dev/null
    for script in /docker-entrypoint-initdb.d/*.sh; do
        setpriv --reuid postgres --regid postgres --clear-groups "$script"
    done
    su postgres -c "$bin/pg_ctl -D $data -w -m fast stop" >/dev/null
fi
exec setpriv --reuid postgres --regid postgres --clear-groups "$bin/postgres" -D "$data" -c "listen_addresses=*"
SH
    chmod +x "$work/entrypoint"
    build timescale/timescaledb:2.29.2-pg17 <<'DOCKER'
FROM mlscope-standin-base
RUN ln -s /usr/lib/postgresql/*/bin/pg_isready /usr/local/bin/pg_isready
COPY entrypoint /entrypoint
ENTRYPOINT ["/entrypoint"]
DOCKER
fi
