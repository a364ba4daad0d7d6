"""Names of the server, and pages of other sites."""

from __future__ import annotations

import pytest

from tenuto.api.guards import check_host, check_origin, check_text
from tenuto.api.problems import Problem


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("127.0.0.1:8080", 8080),
        ("localhost:8080", 8080),
        ("LocalHost:8080", 8080),
        ("[::1]:8080", 8080),
        ("localhost", 80),
        ("[::1]", 80),
        ("localhost:1", None),
    ],
)
def test_loopback_names_with_our_port_are_ours(host: str, port: int | None) -> None:
    check_host(host, port)


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "evil.example:8080",
        "127.0.0.1.evil.example:8080",
        "evil.example:8080@localhost:8080",
        "localhost:8081",
        "localhost",
        "localhost:",
        "localhost:x",
        "localhost:٨٠٨٠",
        "::1:8080",
        "127.1:8080",
        "localhost:08080000",
    ],
)
def test_other_names_are_refused_with_ours(host: str | None) -> None:
    with pytest.raises(Problem, match=r"use http://127\.0\.0\.1:8080") as caught:
        check_host(host, 8080)

    assert caught.value.kind.code == "forbidden_host"


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_reading_is_no_business_of_the_origin(method: str) -> None:
    check_origin(method, {"origin": "http://evil.example", "sec-fetch-site": "cross-site"})


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "BREW"])
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "https://localhost:8080"},
        {"origin": "http://localhost:8081"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "origin": "http://localhost:8080"},
    ],
)
def test_another_site_changes_nothing(method: str, headers: dict[str, str]) -> None:
    with pytest.raises(Problem) as caught:
        check_origin(method, {"host": "localhost:8080", **headers})

    assert caught.value.kind.code == "forbidden_origin"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://localhost:8080"},
        {"sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none"},
    ],
)
def test_programs_and_our_own_page_may(headers: dict[str, str]) -> None:
    check_origin("POST", {"host": "LOCALHOST:8080", **headers})


@pytest.mark.parametrize(
    ("path", "query", "code"),
    [
        ("/v1/runs/a\0b", b"", "not_found"),
        ("/v1/runs", b"workflow=a%00b", "invalid_input"),
        ("/", b"\0", "invalid_input"),
    ],
)
def test_a_nul_in_the_address_is_refused(path: str, query: bytes, code: str) -> None:
    with pytest.raises(Problem, match="holds a NUL character") as caught:
        check_text(path, query)

    assert caught.value.kind.code == code


def test_any_other_address_passes() -> None:
    check_text("/v1/runs/é", b"workflow=%C3%A9&limit=100")
