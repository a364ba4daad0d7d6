"""Fixtures with real services. A conftest gets them by `from tests.support.backing.fixtures import *`.

Each test process has servers of its own (pytest-xdist: one per worker), started on first use.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.backing.pgbouncer import PgBouncer, start_pgbouncer
from tests.support.backing.postgres import Postgres, start_postgres
from tests.support.backing.redis import Redis, start_redis

__all__ = ["pgbouncer", "postgres", "postgres_15", "postgres_url", "redis", "redis_url"]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """PostgreSQL: that of TENUTO_TEST_DATABASE_URL, else the newest that is here."""
    made = start_postgres()
    yield made
    made.close()


@pytest.fixture(scope="session")
def postgres_15() -> Iterator[Postgres]:
    """The oldest PostgreSQL that is promised."""
    made = start_postgres(15)
    yield made
    made.close()


@pytest.fixture
def postgres_url(postgres: Postgres) -> Iterator[str]:
    """The URL of a fresh, empty database."""
    dsn = postgres.create_database()
    yield dsn
    postgres.drop_database(dsn)


@pytest.fixture(scope="session")
def pgbouncer(postgres: Postgres) -> Iterator[PgBouncer]:
    """A pooler in transaction mode before `postgres`."""
    made = start_pgbouncer(postgres)
    yield made
    made.close()


@pytest.fixture(scope="session")
def redis() -> Iterator[Redis]:
    """A Valkey."""
    made = start_redis()
    yield made
    made.close()


@pytest.fixture
def redis_url(redis: Redis) -> str:
    """The URL of an empty Valkey."""
    redis.flush()
    return redis.url
