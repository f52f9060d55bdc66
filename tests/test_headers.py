from __future__ import annotations

import asyncio
import gzip
from dataclasses import replace

import pytest
from fake_upstream import END, ask, call, chunk, completion, event, head, proxy, request, say, upstream, whole

from demur.classifier.verdict import FEATURES, Signal, Verdict
from demur.proxy import headers

#: Headers that tell where a client sits, by the documents of those that set them.
WHERE = (
    b"x-real-ip",
    b"x-client-ip",
    b"client-ip",
    b"x-cluster-client-ip",
    b"x-originating-ip",
    b"x-forwarded",
    b"forwarded-for",
    b"true-client-ip",
    b"x-original-forwarded-for",
    b"x-envoy-external-address",
    b"x-envoy-downstream-service-node",
    b"fastly-client-ip",
    b"fly-client-ip",
    b"do-connecting-ip",
    b"x-nf-client-connection-ip",
    b"x-vercel-forwarded-for",
    b"x-vercel-ip-city",
    b"x-azure-clientip",
    b"x-azure-socketip",
    b"x-appengine-user-ip",
    b"x-appengine-citylatlong",
    b"x-proxyuser-ip",
    b"wl-proxy-client-ip",
    b"proxy-client-ip",
    b"incap-client-ip",
    b"cloudfront-viewer-address",
    b"cloudfront-viewer-country",
)
SIGNAL = Signal("apology_without_substance", "hard_refusal", 0.5, "r", "why")
VERDICT = Verdict("hard_refusal", "complete", 0.97654, rationale="policy", signals=(SIGNAL, SIGNAL), id="abc")


def test_w47_w49_what_goes_up() -> None:
    stay = [
        (b"authorization", b"Bearer k"),
        (b"api-key", b"k"),
        (b"x-api-key", b"k"),
        (b"cf-aig-authorization", b"k"),
        (b"x-goog-api-key", b"k"),
        (b"openai-beta", b"a"),
        (b"openai-beta", b"b"),
        (b"accept-encoding", b"br"),
        (b"x-envoy-upstream-rq-timeout-ms", b"9000"),  # a wish to the next Envoy, no place
    ]
    go = [
        (b"host", b"proxy"),
        (b"connection", b"keep-alive, X-Hop"),
        (b"x-hop", b"1"),
        (b"keep-alive", b"5"),
        (b"te", b"trailers"),
        (b"upgrade", b"h2c"),
        (b"transfer-encoding", b"chunked"),
        (b"proxy-authorization", b"k"),
        (b"expect", b"100-continue"),
        (b"x-forwarded-for", b"1.2.3.4"),
        (b"x-forwarded-proto", b"https"),
        (b"cf-connecting-ip", b"1.2.3.4"),
        (b"cf-visitor", b"{}"),
        (b"via", b"1.1 x"),
        (b"forwarded", b"for=1.2.3.4"),
        *((name, b"1.2.3.4") for name in WHERE),
        (b"x-refusal-tag", b"team"),
        (b"x-refusal-anything", b"1"),
    ]
    assert headers.upstream([*go[:5], *stay, *go[5:]]) == stay


def test_w44_w45_what_comes_down() -> None:
    raw = [
        (b"Content-Type", b"application/json"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Content-Length", b"5"),
        (b"Connection", b"keep-alive, X-Foo"),
        (b"X-Foo", b"1"),
        (b"Keep-Alive", b"timeout=5"),
        (b"Proxy-Authenticate", b"Basic"),
        (b"Upgrade", b"h2c"),
        (b"Set-Cookie", b"a=1"),
        (b"set-cookie", b"b=2"),
        (b"Vary", b"Origin"),
        (b"Vary", b"Accept"),
        (b"Date", b"now"),
        (b"Server", b"theirs"),
        (b"X-Refusal-Verdict", b"answer"),
        (b"X-Bad", b"a\x01b"),
    ]
    assert headers.downstream(raw, 200) == [
        (b"content-type", b"application/json"),
        (b"set-cookie", b"a=1"),
        (b"set-cookie", b"b=2"),
        (b"vary", b"Origin"),
        (b"vary", b"Accept"),
        (b"date", b"now"),
        (b"server", b"theirs"),
    ]
    assert headers.downstream([(b"Content-Length", b"5")], 200) == [(b"content-length", b"5")]
    assert headers.downstream([(b"Content-Length", b"5")], 304) == []


@pytest.mark.parametrize(
    ("sent", "up"),
    [  # W42
        (None, None),
        (b"identity", b"identity"),
        (b"br", b"identity"),
        (b"gzip, deflate, br;q=0.9, zstd", b"gzip, deflate"),
        (b"*", b"identity"),
        (b"GZIP;q=0.5", b"GZIP;q=0.5"),
    ],
)
def test_w42_only_codings_that_both_can_read(sent: bytes | None, up: bytes | None) -> None:
    assert headers.accept_encoding(sent, frozenset({b"gzip", b"deflate", b"identity"})) == up


def test_verdict_headers_are_bounded_ascii() -> None:
    assert headers.verdict(VERDICT, b"demur-rules/1") == [
        (b"x-refusal-verdict", b"hard_refusal"),
        (b"x-refusal-score", b"0.977"),
        (b"x-refusal-action", b"non_compliance"),
        (b"x-refusal-rationale", b"policy"),
        (b"x-refusal-signals", b"apology_without_substance"),
        (b"x-refusal-status", b"complete"),
        (b"x-refusal-id", b"abc"),
        (b"x-refusal-classifier", b"demur-rules/1"),
    ]
    answer = Verdict("answer", "complete", 0.9)
    several = headers.verdict(Verdict("hard_refusal", "complete", choices=(VERDICT, answer, VERDICT)), b"c")
    assert (b"x-refusal-choices", b"2/3") in several
    many = tuple(Signal(f"signal_{n}_é", "shaped", 0.1, "r", "w") for n in range(500))
    signals = headers.get(headers.verdict(Verdict("shaped", "complete", signals=many), b"c"), b"x-refusal-signals")
    assert signals is not None
    assert len(signals) <= headers.MAX_NAMES
    assert signals.isascii()
    features = dict.fromkeys(FEATURES, True)
    coded = headers.verdict(replace(VERDICT, strategy="implicit", features=features), b"c")
    assert headers.get(coded, b"x-refusal-strategy") == b"implicit"
    assert headers.get(coded, b"x-refusal-features") == ",".join(FEATURES).encode()
    bare = headers.verdict(replace(VERDICT, strategy="explicit", features=dict.fromkeys(FEATURES, False)), b"c")
    assert headers.get(bare, b"x-refusal-strategy") == b"explicit"
    assert headers.get(bare, b"x-refusal-features") is None
    assert headers.verdict(Verdict(None, "empty", id="x"), b"c") == [
        (b"x-refusal-status", b"empty"),
        (b"x-refusal-id", b"x"),
        (b"x-refusal-classifier", b"c"),
    ]


def test_cross_origin_pages_may_read_ours() -> None:
    ours = headers.pending("abc", b"c")
    names = b"x-refusal-verdict, x-refusal-id, x-refusal-classifier"
    other = [(b"origin", b"https://page.example")]
    assert headers.added([], ours, other)[-1] == (b"access-control-expose-headers", names)
    for listing in (b"access-control-expose-headers", b"Access-Control-Expose-Headers"):
        joined = headers.added([(listing, b"x-request-id"), (b"a", b"b")], ours, other)
        assert joined == [(listing, b"x-request-id, " + names), (b"a", b"b"), *ours]
    assert headers.added([(b"a", b"b")], ours, []) == [(b"a", b"b"), *ours]
    assert headers.added([(b"a", b"b")], [], other) == [(b"a", b"b")]


def test_the_tag_is_cut() -> None:
    assert headers.tag([(b"x-refusal-tag", b" team-a ")]) == "team-a"
    assert headers.tag([(b"x-refusal-tag", b"x" * 1000)]) == "x" * headers.MAX_TAG
    assert headers.tag([(b"x-refusal-tag", b"")]) is None
    assert headers.tag([]) is None


SUMS = ("Content-Digest: sha-256=:YQ==:", "Repr-Digest: sha-256=:YQ==:", "Digest: md5=YQ==", "Content-MD5: YQ==")


@pytest.mark.parametrize("cache", ["Cache-Control: no-transform", "X-Other: 1"], ids=["no-transform", "none"])
@pytest.mark.parametrize("mode", ["chunk", "off"])
def test_what_was_true_of_the_bytes_goes_where_they_change(mode: str, cache: str) -> None:
    body = say("Fine") + event({}, "stop")

    async def run() -> None:
        script = [head("text/event-stream", *SUMS, tag, cache, length=len(body)) + body for tag in ETAGS]
        async with upstream(script[0], then=[(script[1],)]) as up, proxy(up.url, stream_verdict=mode) as px:
            for tag in ETAGS:
                answer = await call(px, ask(stream=True))
                assert (b"refusal_verdict" in answer.body) is (mode == "chunk")
                names = {name for name, _ in answer.headers}
                summed = {line.partition(":")[0].lower() for line in SUMS} | {"content-length"}
                assert names & summed == (set() if mode == "chunk" else summed)
                assert ("etag" in names) is (mode == "off" or tag == ETAGS[1])

    asyncio.run(run())


ETAGS = ('ETag: "strong"', 'ETag: W/"weak"')


@pytest.mark.parametrize("named", ["content-length", "Content-Encoding", "CONTENT-TYPE, content-length, x-hop"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/files"])
def test_connection_takes_off_nothing_that_tells_how_to_read_a_body(path: str, named: str) -> None:
    packed = gzip.compress(b'{"model": "m", "messages": [{"role": "user", "content": "hi"}]}')
    lines = ("Content-Type: application/json", "Content-Encoding: gzip", f"Connection: {named}", "X-Hop: 1")

    async def run() -> None:
        down = gzip.compress(completion("I can't help with that."))
        script = head("application/json", *lines[1:], length=len(down)) + down
        async with upstream(script) as up, proxy(up.url) as px:
            answer = await call(px, request("POST", path, packed, *lines))
            [got] = up.requests
            assert (got.body, answer.body, answer.clean) == (packed, down, True)
            for name in ("content-encoding", "content-length", "content-type"):
                assert (len(got.all(name)), len(answer.all(name))) == (1, 1)
            assert bool(got.all("x-hop")) is ("x-hop" not in named)

    asyncio.run(run())


def test_thousands_of_headers_come_down() -> None:
    """Their size has a limit, not their number."""
    lines = [f"X-{number}: {number}" for number in range(10_000)]

    async def run() -> None:
        async with upstream(whole(completion("Fine."), "application/json", *lines)) as up, proxy(up.url) as px:
            answer = await call(px, ask())
            assert [value for name, value in answer.headers if name[2:].isdigit()] == [*map(str, range(10_000))]

    asyncio.run(run())


def test_on_the_wire() -> None:
    """W44, W45, W46, W49 and the rest through real sockets."""

    async def run() -> None:
        lines = (
            "Server: theirs",
            "Date: Mon, 01 Jan 2024 00:00:00 GMT",
            "Set-Cookie: a=1",
            "SET-COOKIE: b=2",
            "X-Refusal-Id: no",
        )
        json = (
            head("application/json", *lines, "Connection: keep-alive, X-Foo", "X-Foo: 1"),
            chunk(completion("Fine.")),
            END,
        )
        stream = (head("text/event-stream", *lines), chunk(say("Fine.")), END)
        preflight = whole(b"", "text/plain", "Access-Control-Allow-Origin: *", status="200 OK")
        async with (
            upstream(*json, then=[stream, (preflight,), (head("application/json", length=99),)]) as up,
            proxy(up.url) as px,
        ):
            sent = (
                "api-key: k",
                "X-Forwarded-For: 1.2.3.4",
                "X-Refusal-Tag: team",
                "Origin: http://page",
                "X-A: 1",
                "X-A: 2",
            )
            for number, answer in enumerate([await call(px, ask("How?", *sent)), await call(px, ask(stream=True))]):
                assert answer.all("date") == ["Mon, 01 Jan 2024 00:00:00 GMT"]
                assert answer.all("server") == ["theirs"]
                assert answer.all("set-cookie") == ["a=1", "b=2"]
                assert len(answer.all("transfer-encoding") + answer.all("content-length")) == 1
                assert answer.all("x-foo") == []
                assert answer.all("x-refusal-id") == [px.ended[number].id]
                assert bool(answer.all("access-control-expose-headers")) == (number == 0)
            got = up.requests[0]
            assert (got.all("api-key"), got.all("authorization"), got.all("x-forwarded-for")) == (["k"], [], [])
            assert got.all("x-a") == ["1", "2"]
            assert not [name for name, _ in got.headers if name.startswith("x-refusal")]
            assert got.all("host") == [f"127.0.0.1:{up.port}"]
            assert px.ended[0].tag == "team"
            assert up.requests[1].all("accept-encoding") == ["identity"]
            assert not {"user-agent", "accept"} & {name for name, _ in got.headers}  # none of our client's own

            options = await call(px, request("OPTIONS", "/v1/chat/completions", None, "Origin: http://page"))
            assert options.all("access-control-allow-origin") == ["*"]
            assert options.all("access-control-expose-headers") == []
            odd = await call(px, request("HEAD", "/v1/models"))
            assert (odd.status, odd.get("content-length")) == (200, "99")

    asyncio.run(run())
