"""Calls of an SDK that has a synchronous and an asynchronous client with the same methods: a scenario is written once.

What comes back is plain data. A scenario is a coroutine function that takes a client.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from pydantic import BaseModel

Client = Any
Scenario = Callable[[Client], Coroutine[Any, Any, Any]]
#: For all clients: each would load the certificates anew, which takes longer than its calls.
TLS = ssl.create_default_context()


def plain(value: Any) -> Any:
    """Models as plain data, with keys that the package does not know."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", warnings=False)
    return [plain(item) for item in value] if isinstance(value, list) else value


async def settled(value: Any) -> Any:
    """A result, awaited where it must be."""
    return await value if hasattr(value, "__await__") else value


async def items(stream: Any) -> list[Any]:
    if hasattr(stream, "__aiter__"):
        return [plain(item) async for item in stream]
    return [plain(item) for item in stream]


async def within(manager: Any, use: Callable[[Any], Awaitable[Any]]) -> Any:
    """What `use` makes of what a context manager gives."""
    if hasattr(manager, "__aenter__"):
        async with manager as value:
            return await use(value)
    with manager as value:
        return await use(value)


async def first(stream: Any) -> Any:
    """The first item of a stream that is then left."""

    async def use(stream: Any) -> Any:
        return plain(await anext(aiter(stream)) if hasattr(stream, "__aiter__") else next(iter(stream)))

    return await within(stream, use)


async def until_broken(stream: Any, seen: list[Any]) -> None:
    """Collects in `seen`, which keeps what came before an error."""
    if hasattr(stream, "__aiter__"):
        async for item in stream:
            seen.append(plain(item))  # noqa: PERF401
    else:
        for item in stream:
            seen.append(plain(item))  # noqa: PERF401


async def failure(call: Awaitable[Any], kind: type[Exception]) -> list[Any]:
    """What the client raises, as plain data."""
    with pytest.raises(kind) as caught:
        await call
    found: Any = caught.value
    facts = [type(found).__name__, str(found), getattr(found, "body", None)]
    if response := getattr(found, "response", None):
        facts += [found.status_code, found.request_id, response.headers.get("retry-after")]
    return facts


def synchronous(scenario: Scenario, client: Client) -> Any:
    with client:
        return asyncio.run(scenario(client))


def asynchronous(scenario: Scenario, client: Client) -> Any:
    async def run() -> Any:
        async with client:
            return await scenario(client)

    return asyncio.run(run())
