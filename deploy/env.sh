#!/bin/sh
# Writes .env for compose.yaml, once: a password of PostgreSQL and the secret that signs tokens. They stay on this machine.
set -eu
cd "$(dirname "$0")/.."
if [ -e .env ]; then
  echo ".env is there already: nothing changed"
  exit 0
fi
draw() { od -An -v -N "$1" -tx1 /dev/urandom | tr -d ' \n'; }
umask 077
{
  echo "POSTGRES_PASSWORD=$(draw 24)"
  echo "TENUTO_AUTH_SECRET=$(draw 32)"
} >.env
echo "wrote .env"
