"""The same judging in a client process, without a proxy: a transport around a transport of httpx or of httpx2.

    client = openai.OpenAI(http_client=httpx2.Client(transport=RefusalTransport(httpx2.HTTPTransport())))

Requests go out as they are, answers come in as they are, plus what the proxy adds: the headers, and the key in a
stream's finish chunk. `response.extensions["demur.verdict"]` is the verdict, of a stream once it has been read or
closed. Streams stay lazy; a complete JSON answer is read at once, for its headers. What fails in observing is logged
and changes nothing; what the wrapped transport raises is raised.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Collection, Coroutine, Iterator
from contextlib import suppress
from functools import cache
from types import TracebackType
from typing import Any, Self

from demur.classifier.judge import Classifier
from demur.config import Settings, load
from demur.proxy.client_watch import VERDICT, OnVerdict, Watch, complain
from demur.proxy.passage import Way
from demur.proxy.witness import Judging, Server, Witness

__all__ = ["VERDICT", "AsyncRefusalTransport", "OnVerdict", "RefusalTransport"]

# Type checkers take it for a transport of either library.
_Transport: Any = object


class _Wrapper(_Transport):  # type: ignore[misc]
    """What both have in common.

    `on_verdict(verdict, exchange)` is called when an exchange is over. `hosts` are those whose answers are judged
    (None: all). Without `settings` they are read as by the command: `demur.toml`, then `DEMUR_*`; `classifier` stands
    for the one that they describe. Raises ConfigError or LexiconError for wrong ones, and TypeError for what is no
    transport of this kind.
    """

    #: The method that a transport of this kind has, and how one is made.
    _sends: tuple[str, str]

    def __init__(
        self,
        transport: Any,
        *,
        on_verdict: OnVerdict | None = None,
        hosts: Collection[str] | None = None,
        settings: Settings | None = None,
        classifier: Classifier | None = None,
    ) -> None:
        method, example = self._sends
        if not callable(getattr(transport, method, None)) or isinstance(transport, type):
            raise TypeError(
                f"{type(self).__name__} wraps a transport, which has {method}(); it got {_named(transport)}. Give it "
                f"{example}, of httpx2 or httpx as the client is"
            )
        self._transport = transport
        self._judging = Judging.by(settings or load().settings, classifier)
        self._on_verdict = on_verdict
        self._hosts = hosts

    def _watch(self, request: Any) -> Watch | None:
        """What looks at the exchange that `request` begins; None when it is not judged."""
        try:
            url = request.url
            if self._hosts is not None and url.host not in self._hosts:
                return None
            witness = Witness(
                self._judging,
                method=request.method,
                path=url.raw_path.partition(b"?")[0],
                headers=[(name.lower(), value) for name, value in request.headers.raw],
                server=Server(url.host, url.port or (443 if url.scheme == "https" else 80)),
            )
        except Exception as error:
            complain("a request could not be observed; it passes unchanged", error)
            return None
        return Watch(witness, request, self._on_verdict) if witness.record.api is not None else None


def _named(value: Any) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


class RefusalTransport(_Wrapper):
    """Around a synchronous transport; as safe to share between threads as that is."""

    _sends = "handle_request", "HTTPTransport()"

    def handle_request(self, request: Any) -> Any:
        if (watch := self._watch(request)) is None:
            return self._transport.handle_request(request)
        response = None
        try:
            _at_once(watch.asks())
            response = self._transport.handle_request(request)
            way = watch.answered(response)
            if way is Way.UNREAD:
                return response
            source = iter(response.stream)
            if way is Way.WHOLE:
                _read(watch, source)
                _at_once(watch.judge())
        except BaseException as error:
            try:
                watch.failed(error)
            finally:
                if response is not None:
                    response.close()
            raise
        return watch.response(response, _kind(response, _Body, "SyncByteStream")(watch, source, response))

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Self:
        self._transport.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        self._transport.__exit__(kind, error, traceback)


class AsyncRefusalTransport(_Wrapper):
    """Around an asynchronous transport, under asyncio or trio."""

    _sends = "handle_async_request", "AsyncHTTPTransport()"

    async def handle_async_request(self, request: Any) -> Any:
        if (watch := self._watch(request)) is None:
            return await self._transport.handle_async_request(request)
        response = None
        try:
            await _in_turns(watch.asks())
            response = await self._transport.handle_async_request(request)
            way = watch.answered(response)
            if way is Way.UNREAD:
                return response
            source = aiter(response.stream)
            if way is Way.WHOLE:
                await _read_async(watch, source)
                await _in_turns(watch.judge())
        except BaseException as error:
            try:
                watch.failed(error)
            finally:
                if response is not None:
                    await response.aclose()
            raise
        return watch.response(response, _kind(response, _AsyncBody, "AsyncByteStream")(watch, source, response))

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self._transport.__aexit__(kind, error, traceback)


def _read(watch: Watch, source: Iterator[bytes]) -> None:
    """All of a whole answer, or as much as is judged of it at once. An error is for who reads the answer."""
    try:
        for piece in source:
            if not watch.takes(piece):
                return
    except Exception as error:
        watch.error = error


async def _read_async(watch: Watch, source: AsyncIterator[bytes]) -> None:
    try:
        async for piece in source:
            if not watch.takes(piece):
                return
    except Exception as error:
        watch.error = error


class _Body:
    """What the client reads: what is kept, then what comes."""

    def __init__(self, watch: Watch, source: Iterator[bytes], response: Any) -> None:
        self._watch = watch
        self._source = source
        self._stream = response.stream

    def __iter__(self) -> Iterator[bytes]:
        watch = self._watch
        yield from watch.kept()
        try:
            for piece in self._source:
                if ready := watch.passing(piece):
                    yield ready
        except Exception as error:
            if rest := watch.broken(error):
                yield rest
            raise
        if rest := watch.close():
            yield rest

    def close(self) -> None:
        try:
            self._watch.closed()
        finally:
            self._stream.close()


class _AsyncBody:
    def __init__(self, watch: Watch, source: AsyncIterator[bytes], response: Any) -> None:
        self._watch = watch
        self._source = source
        self._stream = response.stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        watch = self._watch
        for ready in watch.kept():
            yield ready
        try:
            async for piece in self._source:
                if ready := watch.passing(piece):
                    yield ready
        except Exception as error:
            if rest := watch.broken(error):
                yield rest
            raise
        if rest := watch.close():
            yield rest

    async def aclose(self) -> None:
        try:
            self._watch.closed()
        finally:
            await self._stream.aclose()


def _kind(response: Any, body: type, base: str) -> Any:
    """`body` as the library of `response` wants it: a subclass of its own."""
    modules = (sys.modules[kind.__module__.partition(".")[0]] for kind in type(response).__mro__)
    return _subclass(body, next(getattr(module, base) for module in modules if hasattr(module, base)))


@cache
def _subclass(body: type, base: type) -> type:
    return type(body.__name__, (body, base), {})


def _at_once(work: Coroutine[Any, Any, None]) -> None:
    """Runs `work`, which waits for nothing: it only gives way to others."""
    with suppress(StopIteration):
        while True:
            work.send(None)


async def _in_turns(work: Coroutine[Any, Any, None]) -> None:
    """The same, giving way where asyncio runs (trio has ways of its own)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        _at_once(work)
    else:
        await work
