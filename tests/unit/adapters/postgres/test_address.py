import pytest

from tenuto.adapters.postgres.address import read_address
from tenuto.model.errors import InvalidInput

URL = "postgresql://user:secret@db.example:5433/work"


@pytest.mark.parametrize(
    ("query", "schema", "kept"),
    [
        ("", "public", ""),
        ("?schema=tenuto", "tenuto", ""),
        ("?options=-csearch_path%3Dtenuto", "tenuto", ""),
        ("?options=-c+search_path%3Dtenuto+-cgeqo%3Doff", "tenuto", "?options=-cgeqo%3Doff"),
        ("?sslmode=require&schema=a_1", "a_1", "?sslmode=require"),
    ],
)
def test_a_url_says_where_the_tables_are(query: str, schema: str, kept: str) -> None:
    address = read_address(URL + query)
    assert address.schema == schema
    assert address.url == URL + kept
    assert address.channel == f"tenuto_{schema}"


@pytest.mark.parametrize("schema", ["", "Ab", "a-b", 'a"b', "1a", "a" * 60])
def test_a_schema_that_would_need_quotes_is_refused(schema: str) -> None:
    with pytest.raises(InvalidInput, match="no schema of Tenuto's"):
        read_address(f"{URL}?schema={schema}")


def test_what_is_shown_has_no_password() -> None:
    address = read_address(f"{URL}?schema=tenuto&password=hidden")
    assert address.shown == "postgresql://db.example:5433/work?schema=tenuto"
    assert "secret" not in repr(address)
    assert "hidden" not in repr(address)


@pytest.mark.parametrize(
    ("url", "user", "has_password"),
    [
        (URL, "user", True),
        ("postgresql://a%40b@h/d", "a@b", False),
        ("postgresql:///d?user=ann&password=x", "ann", True),
        ("postgresql://h/d", "", False),
    ],
)
def test_a_url_says_who_asks_and_whether_with_a_password(
    url: str, user: str, has_password: bool
) -> None:
    address = read_address(url)
    assert (address.user, address.has_password) == (user, has_password)


def test_a_host_in_the_query_is_shown() -> None:
    assert read_address("postgresql:///work?host=/run/pg").shown == "postgresql:///run/pg/work"
