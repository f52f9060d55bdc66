from __future__ import annotations

import pytest
from pydantic import SecretStr, ValidationError

from demur.classifier.lexicon import LANGUAGES
from demur.config import Settings, describe, values


def test_the_defaults_are_those_of_the_design() -> None:
    assert Settings().model_dump() == {
        "upstream": "https://api.openai.com/v1",
        "host": "127.0.0.1",
        "port": 8787,
        "admin_host": "127.0.0.1",
        "admin_port": 8788,
        "admin_token": None,
        "client_token": None,
        "stream_verdict": "chunk",
        "hold_chars": 0,
        "hold_ms": 0,
        "buffer": False,
        "verdict_ttl": 600,
        "verdict_keep": 10_000,
        "verdict_log": None,
        "min_confidence": 0.5,
        "languages": (),
        "lexicons": (),
        "tag_limit": 100,
        "connect_timeout": 10,
        "first_byte_timeout": 600,
        "idle_timeout": 300,
        "total_timeout": None,
        "client_timeout": 60,
        "drain_seconds": 30,
        "max_exchanges": None,
        "max_request_bytes": 64 * 1024 * 1024,
        "inspect_bytes": 2 * 1024 * 1024,
        "ca_file": None,
        "client_cert": None,
        "client_key": None,
        "judge_url": None,
        "judge_model": None,
        "judge_key_env": None,
        "judge_below": 0.7,
        "judge_cache": None,
        "judge_concurrency": 4,
        "judge_timeout": 60,
        "judge_max_tokens": None,
        "judge_input_price": None,
        "judge_output_price": None,
        "log_level": "info",
        "log_format": "text",
        "route": (),
    }


def test_the_defaults_pass_their_own_validation() -> None:
    assert Settings(**Settings().model_dump()) == Settings()


def test_settings_are_immutable_and_know_no_other_names() -> None:
    with pytest.raises(ValidationError):
        Settings().port = 1
    with pytest.raises(ValidationError):
        Settings(prot=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", describe())
def test_every_setting_says_what_it_is(name: str) -> None:
    described = describe()[name]
    assert len(described.description) > 15
    assert described.accepts
    assert described.variable == "DEMUR_" + name.upper()
    assert described.flag == "--" + name.replace("_", "-")
    if name.endswith(("_timeout", "_seconds", "_ttl")):
        assert described.unit == "seconds"
    if name.endswith("_bytes"):
        assert described.unit == "bytes"


def test_choices_are_listed() -> None:
    assert describe()["stream_verdict"].words == ("chunk", "off")
    assert describe()["log_level"].accepts == "one of debug, info, warning, error"


def test_two_listeners_need_two_ports_unless_free_ones_are_taken() -> None:
    with pytest.raises(ValidationError, match="both listeners would take port 9000"):
        Settings(port=9000, admin_port=9000)
    with pytest.raises(ValidationError, match="both listeners"):
        Settings(host="0.0.0.0", port=9000, admin_port=9000)
    assert Settings(port=0, admin_port=0).port == 0
    assert Settings(host="127.0.0.2", port=9000, admin_port=9000).admin_port == 9000


def test_secrets_are_masked_and_nothing_else() -> None:
    settings = Settings(upstream="https://key:pass@host.example/v1/@home", admin_token=SecretStr("s3cret"))
    masked = settings.masked()
    assert list(masked) == list(Settings.model_fields)
    assert masked["upstream"] == "https://****@host.example/v1/@home"
    assert masked["admin_token"] == "****"
    assert masked["judge_url"] is None
    assert masked["port"] == 8787
    assert "s3cret" not in repr(settings)
    assert "pass" not in repr(settings)
    assert Settings().masked()["admin_token"] is None
    assert Settings().masked()["upstream"] == "https://api.openai.com/v1"


def test_a_judge_is_whole_or_none() -> None:
    for given in ({"judge_url": "http://127.0.0.1:1/v1"}, {"judge_model": "m"}):
        with pytest.raises(
            ValidationError, match=r"a judge needs judge_url and judge_model, and judge_(url|model) is not"
        ):
            Settings.model_validate(given)
    settings = Settings(judge_url="https://me:pw@host.example/v1/", judge_model=" m ", judge_key_env="A_KEY")
    assert (settings.judge_url, settings.judge_model) == ("https://me:pw@host.example/v1", "m")
    assert settings.masked()["judge_url"] == "https://****@host.example/v1"
    assert "pw" not in repr(settings)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("judge_key_env", "sk-0123", "it is to name the variable that holds the key"),
        ("judge_key_env", "DEMUR_KEY", "are settings"),
        ("judge_model", "a\nb", "control characters"),
        ("judge_concurrency", 0, "greater than or equal to 1"),
        ("judge_max_tokens", 0, "greater than 0"),
        ("judge_input_price", -1, "greater than or equal to 0"),
    ],
)
def test_a_judge_that_cannot_be_asked_is_refused(name: str, value: object, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Settings.model_validate({name: value})


def test_the_languages_are_those_that_have_rules() -> None:
    assert values.LANGUAGES == LANGUAGES


@pytest.mark.parametrize(
    ("given", "read"), [("en,de", ("en", "de")), ("DE en de", ("de", "en")), (["pt"], ("pt",)), ("all", ()), ("", ())]
)
def test_languages_are_named_by_their_codes(given: object, read: tuple[str, ...]) -> None:
    assert Settings.model_validate({"languages": given}).languages == read


def test_a_language_without_rules_is_refused_by_name() -> None:
    with pytest.raises(ValidationError, match="there are no rules for 'sv'; there are: en, zh"):
        Settings.model_validate({"languages": "en,sv"})
