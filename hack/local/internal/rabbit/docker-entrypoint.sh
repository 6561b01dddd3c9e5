#!/bin/bash
# Starts what the arguments say. RABBITMQ_* variables (RABBITMQ_DEFAULT_USER, RABBITMQ_DEFAULT_PASS,
# RABBITMQ_DEFAULT_VHOST, RABBITMQ_ERLANG_COOKIE, RABBITMQ_NODENAME, ...) are read by the broker itself.
set -eu

# As root: give the data folder to the broker's user and go on as that user.
if [ "$(id -u)" = 0 ] && [[ "${1:-}" == rabbitmq* ]]; then
	if [ "$1" = rabbitmq-server ]; then
		find /var/lib/rabbitmq ! -user rabbitmq -exec chown rabbitmq:rabbitmq '{}' +
	fi
	exec setpriv --reuid=rabbitmq --regid=rabbitmq --init-groups --inh-caps=-all "$0" "$@"
fi

# A host name with a domain needs long Erlang names.
if [ -z "${RABBITMQ_USE_LONGNAME:-}" ] && [ "$(hostname)" != "$(hostname -s)" ]; then
	export RABBITMQ_USE_LONGNAME=true
fi

exec "$@"
