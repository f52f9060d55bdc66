"""Every setting of demur: its kind, its default, what it does. Adding one is adding a field here (and reading it)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from demur.config.own_address import leads_to
from demur.config.routes import Route
from demur.config.values import (
    Accepts,
    BaseUrl,
    BaseUrlOrNone,
    Count,
    CountOrNone,
    FileOrNone,
    Files,
    Flag,
    Host,
    Languages,
    ModelOrNone,
    Parallel,
    PathOrNone,
    Port,
    PriceOrNone,
    Seconds,
    SecondsOrNone,
    SecondsOrZero,
    SecretOrNone,
    Share,
    Size,
    VariableOrNone,
    Word,
    mask_url,
    write_bytes,
    write_seconds,
)

#: The setting that is a list of tables, for which there is no variable and no flag.
ROUTE = "route"
#: Parts of the settings, by the first of each.
SECTIONS = {
    "upstream": "Where requests come in and go to",
    "stream_verdict": "Verdicts",
    "connect_timeout": "Limits",
    "ca_file": "Certificates",
    "judge_url": "A language model as a second opinion",
    "log_level": "The program's log",
}
_WILDCARDS = frozenset({"0.0.0.0", "::"})


class Settings(BaseModel):
    """The effective settings, immutable. Times are in seconds, sizes in bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    upstream: BaseUrl = Field(
        default="https://api.openai.com/v1", description="base URL of the API that requests are sent to"
    )
    host: Host = Field(default="127.0.0.1", description="address that the proxy listens on")
    port: Port = Field(default=8787, description="port of the proxy; 0 takes a free one")
    admin_host: Host = Field(default="127.0.0.1", description="address that the admin server (/metrics) listens on")
    admin_port: Port = Field(default=8788, description="port of the admin server; 0 takes a free one")
    admin_token: SecretOrNone = Field(default=None, description="bearer token that the admin server asks for")
    client_token: SecretOrNone = Field(
        default=None, description="token that clients must send, in place of a key or as x-refusal-token"
    )

    stream_verdict: Annotated[Literal["chunk", "off"], Word] = Field(
        default="chunk",
        description="whether a stream's finish chunk carries the verdict (chunk) or passes untouched (off)",
    )
    hold_chars: Count = Field(
        default=0, description="a stream's head waits for an early verdict on this much text, in characters; 0: not"
    )
    hold_ms: Count = Field(
        default=0, description="a stream's head waits this long at most, in milliseconds; 0: hold_chars alone decides"
    )
    buffer: Flag = Field(
        default=False, description="a stream is held whole, up to inspect_bytes, so that its head has the final verdict"
    )
    verdict_ttl: Seconds = Field(default=600.0, description="how long a verdict can be looked up under /-/verdicts/ID")
    verdict_keep: Count = Field(
        default=10_000, description="how many verdicts can be looked up; beyond it the oldest go"
    )
    verdict_log: PathOrNone = Field(
        default=None, description="file, or pipe with a reader, to which each verdict is appended as a line of JSON"
    )
    min_confidence: Share = Field(default=0.5, description="a verdict less sure than this stays an answer")
    languages: Languages = Field(
        default=(), description="the languages whose rules are used; none named: all that come with demur"
    )
    lexicons: Files = Field(default=(), description="own lexicon files, used beside the ones that come with demur")
    tag_limit: Count = Field(
        default=100, description="distinct x-refusal-tag values kept as labels; the rest count as other"
    )

    connect_timeout: Seconds = Field(default=10.0, description="longest wait for a connection to the upstream")
    first_byte_timeout: Seconds = Field(default=600.0, description="longest wait for the upstream's response to begin")
    idle_timeout: Seconds = Field(default=300.0, description="longest gap between two pieces of a response")
    total_timeout: SecondsOrNone = Field(default=None, description="longest time for a whole exchange")
    client_timeout: Seconds = Field(
        default=60.0, description="longest wait for a request's head, and for its body besides a second per 500 bytes"
    )
    drain_seconds: SecondsOrZero = Field(default=30.0, description="time that open exchanges get to end at shutdown")
    max_exchanges: CountOrNone = Field(default=None, description="exchanges open at once; beyond them clients get 503")
    max_request_bytes: Size = Field(default=64 * 2**20, description="largest request body that is passed on")
    inspect_bytes: Size = Field(
        default=2 * 2**20,
        description="stream text, or body bytes, judged per exchange; what exceeds it passes unjudged",
    )
    ca_file: FileOrNone = Field(
        default=None, description="certificate authorities (PEM) for the upstream instead of the system's"
    )
    client_cert: FileOrNone = Field(
        default=None, description="certificate (PEM) that is shown to an upstream that asks for one"
    )
    client_key: FileOrNone = Field(
        default=None, description="key (PEM, not encrypted) of client_cert, where it is not in the same file"
    )

    judge_url: BaseUrlOrNone = Field(
        default=None, description="base URL of an API whose model is asked for a second opinion; texts are sent to it"
    )
    judge_model: ModelOrNone = Field(default=None, description="the model that is asked")
    judge_key_env: VariableOrNone = Field(
        default=None, description="the variable that holds the judge's key; without it no key is sent"
    )
    judge_below: Share = Field(default=0.7, description="a verdict less sure than this is shown to the judge")
    judge_cache: PathOrNone = Field(
        default=None, description="file in which the judge's codings are kept, so that no text is paid for twice"
    )
    judge_concurrency: Parallel = Field(default=4, description="how many texts the judge codes at once")
    judge_timeout: Seconds = Field(default=60.0, description="longest wait for one answer of the judge")
    judge_max_tokens: CountOrNone = Field(
        default=None, description="tokens, sent and received, after which the judge is asked no more in this run"
    )
    judge_input_price: PriceOrNone = Field(
        default=None, description="price of a million tokens that are sent to the judge, to tell what it cost"
    )
    judge_output_price: PriceOrNone = Field(
        default=None, description="price of a million tokens that the judge answers with"
    )

    log_level: Annotated[Literal["debug", "info", "warning", "error"], Word] = Field(
        default="info", description="least severity that is written to the program's log"
    )
    log_format: Annotated[Literal["text", "json"], Word] = Field(
        default="text", description="form of the program's log"
    )

    route: tuple[Route, ...] = Field(default=(), description="other upstreams by model or path; the first match wins")

    @model_validator(mode="after")
    def _two_listeners(self) -> Settings:
        same_host = self.host == self.admin_host or bool({self.host, self.admin_host} & _WILDCARDS)
        if same_host and self.port == self.admin_port != 0:
            raise PydanticCustomError(
                "conflict", "both listeners would take port {port}", {"port": self.port, "keys": ("port", "admin_port")}
            )
        return self

    @model_validator(mode="after")
    def _not_its_own_upstream(self) -> Settings:
        ways: list[tuple[str, str, int | None]] = [("upstream", self.upstream, None)]
        ways += [(ROUTE, route.upstream, index) for index, route in enumerate(self.route)]
        for (key, url, index), prefix in product(ways, ("", "admin_")):
            host, port = getattr(self, f"{prefix}host"), getattr(self, f"{prefix}port")
            if leads_to(url, host, port):
                raise PydanticCustomError(
                    "conflict",
                    "{what} is demur itself, listening on {host} port {port}; requests would go in circles",
                    {
                        "what": "upstream" if index is None else f"the upstream of {ROUTE} {index + 1}",
                        "host": host,
                        "port": port,
                        "keys": (key, f"{prefix}host", f"{prefix}port"),
                        "route": index,
                    },
                )
        return self

    @model_validator(mode="after")
    def _key_with_certificate(self) -> Settings:
        if self.client_key is not None and self.client_cert is None:
            raise PydanticCustomError(
                "conflict",
                "a key is of no use without its certificate, and client_cert is not set",
                {"keys": ("client_cert", "client_key")},
            )
        return self

    @model_validator(mode="after")
    def _whole_judge(self) -> Settings:
        if (self.judge_url is None) != (self.judge_model is None):
            missing = "judge_url" if self.judge_url is None else "judge_model"
            raise PydanticCustomError(
                "conflict",
                "a judge needs judge_url and judge_model, and {missing} is not set",
                {"missing": missing, "keys": ("judge_url", "judge_model")},
            )
        return self

    def masked(self) -> dict[str, object]:
        """All values by name, safe to show: tokens, credentials in URLs and the values of added headers replaced."""
        shown: dict[str, object] = {}
        for name in type(self).model_fields:
            value = getattr(self, name)
            shown[name] = "****" if isinstance(value, SecretStr) else value
        shown[ROUTE] = tuple(route.masked() for route in self.route)
        shown["upstream"] = mask_url(self.upstream)
        shown["judge_url"] = self.judge_url and mask_url(self.judge_url)
        return shown

    def __repr_args__(self) -> list[tuple[str | None, object]]:
        return list(self.masked().items())


@dataclass(frozen=True, slots=True)
class Setting:
    """What a person needs to know of one setting: `accepts` is a noun phrase, `words` are the choices if it has any."""

    name: str
    description: str
    default: object
    accepts: str
    unit: str
    words: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        return f"DEMUR_{self.name.upper()}"

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    def written(self, value: object) -> str:
        """A value of this setting as a person writes it."""
        match value:
            case bool():
                return str(value).lower()
            case None:
                return "off" if '"off"' in self.accepts else "none"
            case ():
                return "all" if self.name == "languages" else "none"
            case tuple():
                return ", ".join(map(str, value))
            case int() if self.unit == "bytes":
                return write_bytes(value)
            case float():
                return write_seconds(value) if self.unit == "seconds" else f"{value:g}"
            case _:
                return str(value)


def describe() -> Mapping[str, Setting]:
    """Every setting by name, in the order of `Settings`, without the routes."""
    return {name: _describe(name, field) for name, field in Settings.model_fields.items() if name != ROUTE}


def sections() -> Mapping[str, Sequence[Setting]]:
    """Every setting but the routes, by the title of its section."""
    found: dict[str, list[Setting]] = {}
    for name, setting in describe().items():
        if name in SECTIONS:
            found[SECTIONS[name]] = into = []
        into.append(setting)
    return found


def describe_route() -> Mapping[str, Setting]:
    """The keys of a `[[route]]` by name."""
    return {name: _describe(name, field) for name, field in Route.model_fields.items()}


def _describe(name: str, field: FieldInfo) -> Setting:
    accepts = next((m for m in field.metadata if isinstance(m, Accepts)), None)
    words = () if accepts else get_args(field.annotation)
    if isinstance(field.default, bool):
        words = ("true", "false")
    accepts = accepts or Accepts(f"one of {', '.join(words)}")
    return Setting(name, field.description or "", field.default, accepts.what, accepts.unit, words)
