"""The app on the admin port: `/metrics` for Prometheus and `/-/healthy`. It never sees traffic."""

from __future__ import annotations

import secrets

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from demur.proxy.metrics import Metrics


def create_admin_app(metrics: Metrics, *, token: str | None = None) -> Starlette:
    """With a `token`, `/metrics` wants `Authorization: Bearer <token>`; health checks stay open."""

    # Not async: a scrape of many series takes milliseconds, so Starlette runs it in a thread beside the event loop.
    def scrape(request: Request) -> Response:
        if token is not None and not _bears(request, token):
            return JSONResponse(
                {"error": "this needs the admin token: Authorization: Bearer …"},
                status_code=401,
                headers={"www-authenticate": "Bearer"},
            )
        body, content_type = metrics.render(request.headers.get("accept", ""))
        return Response(body, headers={"content-type": content_type})

    async def healthy(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    return Starlette(
        routes=[Route("/metrics", scrape), Route("/-/healthy", healthy)],
        exception_handlers={HTTPException: _say},
    )


def _bears(request: Request, token: str) -> bool:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    # Header text is bytes shown as Latin-1; compared are the bytes.
    return scheme.lower() == "bearer" and secrets.compare_digest(given.strip().encode("latin-1"), token.encode())


def _say(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, status_code=error.status_code, headers=error.headers)
