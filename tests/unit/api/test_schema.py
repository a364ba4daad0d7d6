"""The JSON Schema of definitions over REST."""

from __future__ import annotations

from tests.support.rest import serving

from tenuto.dsl.schema import schema_text


def test_editors_get_the_schema_that_is_published() -> None:
    with serving() as server:
        answer = server.client.get("/v1/schema/definition.json")

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/schema+json"
    assert answer.text == schema_text()
