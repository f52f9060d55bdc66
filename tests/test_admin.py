from __future__ import annotations

import asyncio

import httpx
import pytest
from exchanges import exchange

from demur.proxy.admin import create_admin_app
from demur.proxy.metrics import Metrics


def call(
    path: str, *, token: str | None = None, method: str = "GET", authorization: str | None = None
) -> httpx.Response:
    metrics = Metrics()
    metrics.ended(exchange())

    headers = [] if authorization is None else [(b"authorization", authorization.encode())]

    async def one() -> httpx.Response:
        transport = httpx.ASGITransport(app=create_admin_app(metrics, token=token))
        async with httpx.AsyncClient(transport=transport, base_url="http://admin") as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(one())


def test_metrics_in_prometheus_format() -> None:
    answer = call("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert "\nrefusal_verdicts_total{" in answer.text


def test_the_token_opens_metrics() -> None:
    assert call("/metrics", token="s3cret", authorization="Bearer s3cret").status_code == 200
    assert call("/metrics", token="geheimnüß", authorization="bearer geheimnüß").status_code == 200


@pytest.mark.parametrize(
    "given", [None, "", "s3cret", "Basic s3cret", "Bearer", "Bearer s3cre", "Bearer s3cret2", "Bearer ü"]
)
def test_without_the_token_metrics_stay_closed(given: str | None) -> None:
    answer = call("/metrics", token="s3cret", authorization=given)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "refusal_verdicts" not in answer.text
    assert "s3cret" not in answer.text


def test_health_needs_no_token() -> None:
    answer = call("/-/healthy", token="s3cret")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


def test_anything_else_is_a_json_404_or_405() -> None:
    for path in ("/", "/nothing", "/v1/chat/completions"):
        answer = call(path)
        assert (answer.status_code, answer.json()) == (404, {"error": "Not Found"})
    assert call("/metrics", method="POST").json() == {"error": "Method Not Allowed"}
