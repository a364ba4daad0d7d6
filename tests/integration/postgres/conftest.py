"""A PostgreSQL of its own for accidents, and a database with Tenuto's schema on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from tests.support.backing.postgres import Postgres, start_postgres
from tests.support.backing.proxy import Proxy
from tests.support.shared_store import ShelvedDatabase


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    made = start_postgres()
    yield made
    made.close()


@pytest.fixture(scope="module")
def shelved(server: Postgres) -> ShelvedDatabase:
    return ShelvedDatabase(server)


@pytest.fixture
def proxy() -> Iterator[Callable[[str], Proxy]]:
    """Puts a proxy before the server of a URL."""
    made: list[Proxy] = []

    def before(url: str) -> Proxy:
        parts = urlsplit(url)
        assert parts.hostname
        assert parts.port
        made.append(Proxy(parts.hostname, parts.port).start())
        return made[-1]

    yield before
    for one in made:
        one.close()
