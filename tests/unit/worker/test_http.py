"""The `http` executor against real servers."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from tests.support.gateway import RUN
from tests.support.http_server import Seen, Site, a_site
from tests.support.worker import a_crew

from tenuto.model.ids import LeaseId, Place
from tenuto.model.payload import PAYLOAD_MAX
from tenuto.ports.gateway import Failed, Lease, Result, Success
from tenuto.runtime.results import canonical, secret
from tenuto.worker.http import HttpExecutor

SECRETS = {"TOKEN": "s3cr3t-token", "PIN": "42"}


@pytest.fixture
def site() -> Iterator[Site]:
    with a_site() as site, a_site() as other:
        site.other = other.url
        yield site


@pytest.fixture
async def executor() -> AsyncIterator[HttpExecutor]:
    executor = HttpExecutor(secrets=SECRETS.get)
    yield executor
    await executor.close()


def a_lease(request: dict[str, Any], *, attempt: int = 1) -> Lease:
    return Lease(
        run_id=RUN,
        place=Place("charge"),
        lease_id=LeaseId("l"),
        name="http",
        queue="default",
        attempt=attempt,
        input=canonical(request),
        lease_us=10_000_000,
        attempt_us=None,
        heartbeat_us=None,
    )


async def send(executor: HttpExecutor, url: str, **request: Any) -> Result:
    return await executor.execute(a_lease({"url": url, **request}))


async def output(executor: HttpExecutor, url: str, **request: Any) -> Any:
    result = await send(executor, url, **request)
    assert isinstance(result, Success), result
    return json.loads(result.output)


async def failure(executor: HttpExecutor, url: str, **request: Any) -> Failed:
    result = await send(executor, url, **request)
    assert isinstance(result, Failed), result
    return result


def last(site: Site) -> Seen:
    return site.seen[-1]


# -- the request ---------------------------------------------------------------------------------------------------


@pytest.mark.rule("L3.3")
async def test_it_carries_the_task_id_as_idempotency_key_and_the_attempt(
    executor: HttpExecutor, site: Site
) -> None:
    await executor.execute(a_lease({"url": f"{site.url}/echo", "method": "post"}, attempt=3))

    assert last(site).method == "POST"
    assert last(site).headers["idempotency-key"] == f"{RUN}/charge"
    assert last(site).headers["x-tenuto-attempt"] == "3"
    assert last(site).headers["user-agent"].startswith("tenuto/")


async def test_headers_of_the_definition_win_over_ours(executor: HttpExecutor, site: Site) -> None:
    own = {"idempotency-key": "mine", "USER-AGENT": "me", "X-Count": 3, "X-None": None}
    await output(executor, f"{site.url}/echo", method="POST", headers=own)

    assert last(site).headers["idempotency-key"] == "mine"
    assert last(site).headers["user-agent"] == "me"
    assert last(site).headers["x-count"] == "3"
    assert "x-none" not in last(site).headers


@pytest.mark.parametrize(
    ("request_", "body", "kind"),
    [
        ({"json": {"b": 1, "a": [None]}}, b'{"a":[null],"b":1}', "application/json"),
        ({"json": None}, b"null", "application/json"),
        ({"body": "grüße"}, "grüße".encode(), "text/plain; charset=utf-8"),
        ({"form": {"a": 1, "b": "x y&"}}, b"a=1&b=x+y%26", "application/x-www-form-urlencoded"),
        (
            {"body": "<a/>", "headers": {"Content-Type": "application/xml"}},
            b"<a/>",
            "application/xml",
        ),
    ],
)
async def test_bodies_are_json_text_or_a_form(
    executor: HttpExecutor, site: Site, request_: dict[str, Any], body: bytes, kind: str
) -> None:
    await send(executor, f"{site.url}/echo", method="POST", **request_)

    assert (last(site).body, last(site).headers["content-type"]) == (body, kind)


async def test_a_query_is_added_to_that_of_the_url(executor: HttpExecutor, site: Site) -> None:
    await send(executor, f"{site.url}/text?a=1", query={"b": "x y", "c": [1, 2], "d": None})

    assert last(site).path == "/text?a=1&b=x+y&c=1&c=2"


async def test_auth_becomes_the_authorization_header(executor: HttpExecutor, site: Site) -> None:
    await send(executor, f"{site.url}/text", auth={"bearer": "abc"})
    assert last(site).headers["authorization"] == "Bearer abc"

    await send(executor, f"{site.url}/text", auth={"basic": {"username": "u", "password": "ü"}})
    pair = base64.b64decode(last(site).headers["authorization"].removeprefix("Basic ")).decode()
    assert pair == "u:ü"


@pytest.mark.rule("X9.1")
async def test_X9_secrets_are_resolved_here_and_blotted_out_of_what_is_kept(
    executor: HttpExecutor, site: Site
) -> None:
    request = {
        "method": "POST",
        "url": f"{site.url}/echo",
        "auth": {"bearer": secret("TOKEN")},
        "json": {"pin": secret("PIN")},
        "$secrets": [["auth", "bearer"], ["json", "pin"]],
    }
    result = await executor.execute(a_lease(request))

    assert last(site).headers["authorization"] == "Bearer s3cr3t-token"
    assert last(site).body == b'{"pin":"42"}'
    assert isinstance(result, Success)
    assert "s3cr3t" not in result.output
    assert json.loads(result.output)["body"]["headers"]["authorization"] == "Bearer ***"


async def test_a_basic_password_is_blotted_out_in_its_encoded_form_too(
    executor: HttpExecutor, site: Site
) -> None:
    request = {
        "url": f"{site.url}/echo",
        "auth": {"basic": {"username": "u", "password": secret("TOKEN")}},
        "$secrets": [["auth", "basic", "password"]],
    }
    result = await executor.execute(a_lease(request))

    assert isinstance(result, Success)
    assert json.loads(result.output)["body"]["headers"]["authorization"] == "Basic ***"


async def test_secrets_come_from_the_environment_by_default(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENUTO_SECRET_TOKEN", "from-outside")
    executor = HttpExecutor()
    bearer = {"auth": {"bearer": secret("TOKEN")}, "$secrets": [["auth", "bearer"]]}
    await send(executor, f"{site.url}/text", **bearer)
    await executor.close()

    assert last(site).headers["authorization"] == "Bearer from-outside"


async def test_a_missing_secret_is_named_and_nothing_is_sent(
    executor: HttpExecutor, site: Site
) -> None:
    found = await failure(
        executor,
        f"{site.url}/text",
        auth={"bearer": secret("NONE")},
        **{"$secrets": [["auth", "bearer"]]},
    )

    assert (found.code, found.retryable) == ("secret_missing", False)
    assert "TENUTO_SECRET_NONE" in found.message
    assert site.seen == []


@pytest.mark.parametrize(
    "request_",
    [
        {"url": "ftp://127.0.0.1/"},
        {"url": "http://"},
        {"url": "no address"},
        {"url": "http://127.0.0.1:99999/"},
        {"url": "http://127.0.0.1:x/"},
        {"url": "http://u:p@127.0.0.1/"},
        {"url": "http://127.0.0.1/\r\nX: y"},
        {"url": 7},
        {},
        {"method": "BREW"},
        {"headers": {"X-A": "a\r\nX-B: b"}},
        {"headers": {"X A": "a"}},
        {"headers": {"X-A": "ü"}},
        {"headers": {"X-A": {"not": "a text"}}},
        {"headers": "no mapping"},
        {"query": [1]},
        {"form": {"a": [1]}},
        {"auth": {"basic": {"username": "u"}}},
    ],
)
async def test_what_cannot_be_sent_is_an_invalid_request_for_good(
    executor: HttpExecutor, site: Site, request_: dict[str, Any]
) -> None:
    base = {} if request_ == {} else {"url": f"{site.url}/text"}
    result = await executor.execute(a_lease({**base, **request_}))

    assert isinstance(result, Failed)
    assert (result.code, result.retryable) == ("invalid_request", False)
    assert site.seen == []


async def test_proxies_of_the_environment_are_ignored(
    executor: HttpExecutor, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    fresh = HttpExecutor()

    assert (await output(fresh, f"{site.url}/text"))["status"] == 200
    await fresh.close()


# -- the answer ----------------------------------------------------------------------------------------------------


@pytest.mark.rule("D1.2")
@pytest.mark.parametrize("status", [200, 201, 202, 299])
async def test_a_2xx_is_a_success_with_status_headers_and_body(
    executor: HttpExecutor, site: Site, status: int
) -> None:
    found = await output(executor, f"{site.url}/status/{status}")

    assert (found["status"], found["body"]) == (status, {"why": "asked"})
    assert found["headers"]["content-type"] == "application/json"


@pytest.mark.rule("D1.2")
@pytest.mark.parametrize("status", [300, 304, 400, 401, 404, 409, 422, 500, 502, 599])
async def test_any_other_status_is_a_failure_that_keeps_the_answer(
    executor: HttpExecutor, site: Site, status: int
) -> None:
    found = await failure(executor, f"{site.url}/status/{status}")

    assert (found.code, found.retryable) == (f"http.{status}", True)
    assert found.details is not None
    details = json.loads(found.details)
    assert details["status"] == status
    assert details["body"] == ({"why": "asked"} if status != 304 else None)
    assert f"answered {status}" in found.message


@pytest.mark.rule("D1.2")
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("text", "grüße"),
        ("latin", "grüße"),
        ("bytes", {"base64": "//4A"}),
        ("empty", None),
        ("json/broken", '{"half": '),
        ("json/problem", {"a": 1}),
        ("json/marked", {"a": 1}),
        ("charset/punycode", {"base64": "LTk5OTk5"}),
        ("charset/idna", {"base64": "LTk5OTk5"}),
        ("charset/undefined", {"base64": "LTk5OTk5"}),
        ("charset/hex", {"base64": "LTk5OTk5"}),
        ("charset/nonsense", {"base64": "LTk5OTk5"}),
        ("surrogate", {"base64": "KzJBQS0="}),
    ],
)
async def test_a_body_is_json_where_it_is_else_text_else_base64(
    executor: HttpExecutor, site: Site, path: str, body: object
) -> None:
    assert (await output(executor, f"{site.url}/{path}"))["body"] == body


async def test_an_answer_that_cannot_be_stored_fails_for_good(
    executor: HttpExecutor, site: Site
) -> None:
    found = await failure(executor, f"{site.url}/json/nul")

    assert (found.code, found.retryable) == ("invalid_result", False)


@pytest.mark.parametrize("path", [f"large/{PAYLOAD_MAX + 1}", "endless", "bomb"])
async def test_an_answer_larger_than_a_payload_is_given_up_early(
    executor: HttpExecutor, site: Site, path: str
) -> None:
    found = await failure(executor, f"{site.url}/{path}")

    assert (found.code, found.retryable) == ("payload_too_large", False)


async def test_of_a_failures_body_only_the_beginning_is_kept(
    executor: HttpExecutor, site: Site
) -> None:
    """Error pages can be long, and nobody reads all of one."""
    found = await failure(executor, f"{site.url}/nowhere")

    assert found.details is not None
    assert len(found.details) < 32_768


@pytest.mark.parametrize(
    ("status", "after", "seconds"),
    [
        (503, "7", 7),
        (429, "0", 0),
        (429, "999999", 3_600),
        (503, "soon", 0),
        (503, "-5", 0),
        (503, "Fri,_31_Dec_1999_23:59:59_GMT", 0),
        (503, "Fri,_31_Dec_2999_23:59:59_GMT", 3_600),
        (500, "7", 0),
    ],
)
async def test_retry_after_is_taken_as_seconds_or_date_and_bounded(
    executor: HttpExecutor, site: Site, status: int, after: str, seconds: int
) -> None:
    found = await failure(executor, f"{site.url}/retry/{status}/{after}")

    assert found.retry_after_us == seconds * 1_000_000


async def test_cookies_are_neither_kept_for_the_next_run_nor_shown(
    executor: HttpExecutor, site: Site
) -> None:
    found = await output(executor, f"{site.url}/cookie")
    await output(executor, f"{site.url}/text")

    assert "set-cookie" not in found["headers"]
    assert "cookie" not in last(site).headers


# -- the network ---------------------------------------------------------------------------------------------------


@pytest.mark.rule("D1.2")
async def test_a_refused_connection_is_connect(executor: HttpExecutor) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can listen there
        found = await failure(executor, f"http://127.0.0.1:{taken.getsockname()[1]}/")

    assert (found.code, found.retryable) == ("connect", True)


async def test_a_failure_names_method_and_address_without_query_and_credentials(
    executor: HttpExecutor, site: Site
) -> None:
    answered = await failure(executor, f"{site.url}/nowhere?token=1", method="PUT")
    refused = await failure(executor, "http://127.0.0.1:1/a/b?token=1", query={"key": "2"})
    long = await failure(executor, "http://127.0.0.1:1/" + "x" * 300)

    assert answered.message.startswith(f"PUT {site.url}/nowhere answered ")
    assert refused.message.startswith("GET http://127.0.0.1:1/a/b: ")
    assert "token" not in answered.message + refused.message
    assert long.message.startswith("GET http://127.0.0.1:1/" + "x" * 199 + "…: ")


async def test_a_name_that_nobody_knows_is_connect(
    executor: HttpExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    # Not the machine's own: one without a network may be silent for longer than a connection may take.
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
    found = await failure(executor, "http://nowhere.invalid/")

    assert (found.code, found.retryable) == ("connect", True)


async def test_tls_with_a_server_that_speaks_none_is_connect(
    executor: HttpExecutor, site: Site
) -> None:
    found = await failure(executor, site.url.replace("http:", "https:"))

    assert (found.code, found.retryable) == ("connect", True)


@pytest.mark.parametrize("path", ["cut", "garbage"])
async def test_a_connection_that_breaks_is_disconnected(
    executor: HttpExecutor, site: Site, path: str
) -> None:
    found = await failure(executor, f"{site.url}/{path}")

    assert (found.code, found.retryable) == ("disconnected", True)


@pytest.mark.rule("D1.2")
@pytest.mark.parametrize("path", ["hang", "slow"])
async def test_silence_ends_with_the_attempts_timeout(site: Site, path: str) -> None:
    executor = HttpExecutor()
    async with a_crew(executors={"http": executor}) as crew:
        lease = crew.gateway.offer("http", {"url": f"{site.url}/{path}"}, attempt_us=100_000)

        assert (await crew.gateway.failure(lease)).code == "timeout"
        sound = crew.gateway.offer("http", {"url": f"{site.url}/text"})
        assert isinstance(await crew.gateway.result(sound), Success)
    await executor.close()


# -- redirects -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "method", "becomes"),
    [
        (301, "GET", "GET"),
        (302, "POST", "GET"),
        (303, "POST", "GET"),
        (307, "POST", "POST"),
        (308, "POST", "POST"),
    ],
)
async def test_redirects_of_one_origin_are_followed(
    executor: HttpExecutor, site: Site, code: int, method: str, becomes: str
) -> None:
    body = {"json": {"a": 1}} if method == "POST" else {}
    headers = {"Authorization": "mine"}
    await output(executor, f"{site.url}/to/{code}/echo", method=method, headers=headers, **body)

    assert (last(site).method, last(site).path) == (becomes, "/echo")
    assert last(site).body == (b'{"a":1}' if becomes == "POST" else b"")
    assert last(site).headers["authorization"] == "mine"
    assert last(site).headers["idempotency-key"] == f"{RUN}/charge"


async def test_a_redirect_to_another_origin_is_followed_without_credentials(
    executor: HttpExecutor, site: Site
) -> None:
    assert (await output(executor, f"{site.url}/away/302/text"))["body"] == "grüße"


@pytest.mark.parametrize(
    "request_",
    [
        {"auth": {"bearer": "abc"}},
        {"headers": {"Authorization": "abc"}},
        {"headers": {"X-Api-Key": "abc"}},
        {"method": "POST", "json": {"a": 1}},
    ],
)
async def test_credentials_and_bodies_never_travel_to_another_origin(
    executor: HttpExecutor, site: Site, request_: dict[str, Any]
) -> None:
    found = await failure(executor, f"{site.url}/away/307/echo", **request_)

    assert found.code == "http.307"
    assert len(site.seen) == 1


async def test_more_than_five_redirects_are_a_failure(executor: HttpExecutor, site: Site) -> None:
    found = await failure(executor, f"{site.url}/loop")

    assert (found.code, found.message) == (
        "http.302",
        f"GET {site.url}/loop: more than 5 redirects",
    )
    assert len(site.seen) == 6


async def test_a_redirect_to_a_forbidden_address_is_blocked(
    executor: HttpExecutor, site: Site
) -> None:
    site.other = "http://169.254.169.254"

    assert (await failure(executor, f"{site.url}/away/302/latest")).code == "address_blocked"
