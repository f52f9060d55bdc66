"""`[[route]]` tables: what they take, and what is said, with file, line and key, of what they can't take."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from demur.cli.main import run
from demur.config import ConfigError, Route, Settings, check_start, load

TWO = """\
port = 9000
[[route]]
models = ["claude-*", "anthropic/*"]
upstream = "https://api.anthropic.com/v1/"
key_env = "ANTHROPIC_KEY"
key_header = "X-API-Key"
add_headers = { Anthropic-Version = "s3cret-version" }

[[route]]
paths = "/vllm/"
upstream = "http://127.0.0.1:8000"
remove_headers = ["OpenAI-Organization"]
"""


def write(folder: Path, text: str) -> Path:
    file = folder / "demur.toml"
    file.write_text(text, encoding="utf-8")
    return file


def problems(folder: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as info:
        load(write(folder, text), {})
    assert "s3cret" not in "".join(traceback.format_exception(info.value))
    return [problem.replace(f"{folder}/", "") for problem in info.value.problems]


def test_routes_are_read_in_order(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, TWO), {})
    first, second = loaded.settings.route
    assert (first.models, first.paths) == (("claude-*", "anthropic/*"), ())
    assert first.upstream == "https://api.anthropic.com/v1"
    assert (first.key_env, first.key_header) == ("ANTHROPIC_KEY", "x-api-key")
    assert {name: value.get_secret_value() for name, value in first.add_headers.items()} == {
        "anthropic-version": "s3cret-version"
    }
    assert (second.paths, second.strips, second.adds_key) == (("/vllm",), True, False)
    assert second.remove_headers == ("openai-organization",)
    assert loaded.routes == (f"{tmp_path}/demur.toml:2", f"{tmp_path}/demur.toml:9")
    assert loaded.origins["route"] == f"{tmp_path}/demur.toml:2"


HEAD = '[[route]]\nmodels = "m"\nupstream = "http://a"\n'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[[route]]\nupstream = "http://a"\n', "demur.toml:1: route 1: has neither models nor paths"),
        ('[[route]]\nmodels = "m"\n', "demur.toml:1: route 1: upstream is missing: base URL"),
        (HEAD + "modles = 1\n", "demur.toml:4: route 1: unknown key 'modles'; did you mean models?"),
        (HEAD + "xyzzy = 1\n", "demur.toml:4: route 1: unknown key 'xyzzy'; the keys are models, paths, "),
        (HEAD + HEAD + "keyenv = 1\n", "demur.toml:7: route 2: unknown key 'keyenv'; did you mean key_env?"),
        (HEAD + "[route.headers]\na = 1\n", "demur.toml:4: route 1: unknown key 'headers'; did you mean add_headers?"),
        (
            '[[route]]\nmodels = ["a["]\nupstream = "http://a"',
            "demur.toml:2: route 1: models: ['a['] is not a list of ",
        ),
        ('[[route]]\nmodels = [""]\nupstream = "http://a"', "demur.toml:2: route 1: models: [''] is not a list of mod"),
        (
            '[[route]]\nmodels = 3\nupstream = "http://a"',
            "demur.toml:2: route 1: models: 3 is not a list of model names",
        ),
        (
            '[[route]]\npaths = ["a"]\nupstream = "http://a"',
            "demur.toml:2: route 1: paths: ['a'] is not a list of path",
        ),
        ('[[route]]\npaths = ["/a*"]\nupstream = "http://a"', "demur.toml:2: route 1: paths: ['/a*'] is not a list of"),
        ('[[route]]\npaths = ["/-/x"]\nupstream = "http://a"', "demur.toml:2: route 1: paths: ['/-/x'] is not a list "),
        (
            '[[route]]\npaths = ["/v1/messages"]\nupstream = "http://a"',
            "demur.toml:1: route 1: strip_prefix: /v1/messages looks like the API's own path: say whether",
        ),
        ('[[route]]\nmodels = "m"\nupstream = "a"', "demur.toml:3: route 1: upstream: 'a' is not an http or https URL"),
        (
            '[[route]]\nmodels = "m"\nupstream = "http://u:s3cret@a"',
            "demur.toml:3: route 1: upstream: user and password in a URL are never sent",
        ),
        ('[[route]]\nmodels = "m"\nupstream = "http://a?s3cret"', "demur.toml:3: route 1: upstream: the value is not"),
        (HEAD + 'key_env = "sk-s3cret"\n', "demur.toml:4: route 1: key_env: the value is not the name of an"),
        (HEAD + 'key_env = "DEMUR_KEY"\n', "demur.toml:4: route 1: key_env: the value is not the name of an"),
        (HEAD + 'key_header = "x-api-key"\n', "demur.toml:4: route 1: key_header: there is no key; key_env names"),
        (HEAD + 'key_env = "K"\nkey_header = "a b"\n', "demur.toml:5: route 1: key_header: 'a b' is not the name of"),
        (
            HEAD + 'key_env = "K"\nadd_headers = { Authorization = "s3cret" }\n',
            "demur.toml:5: route 1: add_headers: authorization is the header of the key",
        ),
        (
            HEAD + 'add_headers = { a = "é" }\n',
            "demur.toml:4: route 1: add_headers: the value is not a table of header",
        ),
        (
            HEAD + 'add_headers = { a = "s3cret\\r\\nb: c" }\n',
            "demur.toml:4: route 1: add_headers: the value is not a ",
        ),
        (HEAD + 'add_headers = { a = " s3cret" }\n', "demur.toml:4: route 1: add_headers: the value is not a table"),
        (HEAD + "add_headers = { a = 1 }\n", "demur.toml:4: route 1: add_headers: the value is not a table of headers"),
        (
            HEAD + '[route.add_headers]\n"a b" = "s3cret"\n',
            "demur.toml:4: route 1: add_headers: the value is not a tab",
        ),
        (HEAD + 'add_headers = { A = "x", a = "y" }\n', "demur.toml:4: route 1: add_headers: the value is not a table"),
        (HEAD + 'add_headers = { host = "x" }\n', "demur.toml:4: route 1: add_headers: the value is not a table"),
        (
            HEAD + 'remove_headers = ["content-length"]\n',
            "demur.toml:4: route 1: remove_headers: ['content-length'] is",
        ),
        (HEAD + 'remove_headers = ["x-refusal-tag"]\n', "demur.toml:4: route 1: remove_headers: ['x-refusal-tag'] is"),
        (
            HEAD + 'add_headers = { a = "x" }\nremove_headers = "a"',
            "demur.toml:5: route 1: remove_headers: a is set by",
        ),
        (HEAD + "strip_prefix = true\n", "demur.toml:4: route 1: strip_prefix: there are no paths"),
        (HEAD + "strip_prefix = 7\n", "demur.toml:4: route 1: strip_prefix: 7 is not true or false"),
        ('[route]\nmodels = "m"\n', "demur.toml:1: route: it is not a list of tables"),
        ("route = 1\n", "demur.toml:1: route: it is not a list of tables"),
        ("route = [1]\n", "demur.toml:1: route: it is not a list of tables"),
        ('route = [{models = "m"}]\n', "demur.toml:1: route 1: upstream is missing"),
        (
            "[[routes]]\na = 1\n",
            "demur.toml:1: unknown section 'routes': a settings file has none but [[route]]; did you mean [[route]]?",
        ),
    ],
)
def test_what_a_route_cannot_take_is_named_with_its_place(text: str, problem: str, tmp_path: Path) -> None:
    [found] = problems(tmp_path, text)
    assert found.startswith(problem)
    assert len(found) < 400


def test_each_key_of_each_route_is_a_problem_of_its_own(tmp_path: Path) -> None:
    text = '[[route]]\nmodels = 1\nupstream = "a"\n[[route]]\npaths = "x"\nupstream = "http://a"\n'
    assert [problem.partition(" is not ")[0] for problem in problems(tmp_path, text)] == [
        "demur.toml:2: route 1: models: 1",
        "demur.toml:3: route 1: upstream: 'a'",
        "demur.toml:5: route 2: paths: 'x'",
    ]


@pytest.mark.parametrize(
    ("upstream", "listener"),
    [("http://127.0.0.1:8787/v1", "host"), ("http://localhost:8788", "admin_host"), ("http://[::1]:8787", "")],
)
def test_no_route_leads_back_to_demur(upstream: str, listener: str, tmp_path: Path) -> None:
    text = HEAD + f'[[route]]\nmodels = "n"\n\nupstream = "{upstream}"\n'
    if not listener:
        assert load(write(tmp_path, text), {}).settings.route[1].upstream == upstream
        return
    [problem] = problems(tmp_path, text)
    assert problem.startswith("demur.toml:7: the upstream of route 2 is demur itself, listening on 127.0.0.1 port 878")
    assert f"route 2 from demur.toml:7, {listener} from default" in problem


def test_neither_a_variable_nor_a_flag_holds_routes() -> None:
    for env, flags in (({"DEMUR_ROUTE": "x"}, {}), ({}, {"route": ({"models": "m", "upstream": "http://a"},)})):
        with pytest.raises(ConfigError, match=r"routes are tables, \[\[route\]\] of a settings file"):
            load(None, env, flags)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "key_env: the variable ANTHROPIC_KEY is not set, or empty"),
        (" ", "key_env: the variable ANTHROPIC_KEY is not set, or empty"),
        ("s3cret s3cret", "key_env: what the variable ANTHROPIC_KEY holds is not a key"),
        ("s3crét", "key_env: what the variable ANTHROPIC_KEY holds is not a key"),
    ],
)
def test_a_key_that_is_not_there_is_told_at_the_start(value: str | None, words: str, tmp_path: Path) -> None:
    loaded = load(write(tmp_path, TWO), {})
    env = {} if value is None else {"ANTHROPIC_KEY": value}
    with pytest.raises(ConfigError) as info:
        check_start(loaded, env)
    [problem] = info.value.problems
    assert problem.startswith(f"{tmp_path}/demur.toml:5: route 1: {words}")
    assert "s3cr" not in problem
    check_start(loaded, {"ANTHROPIC_KEY": "sk-1\n"})


@pytest.mark.parametrize(
    ("host", "refused"),
    [
        ("127.0.0.1", False),
        ("127.8.9.1", False),
        ("::1", False),
        ("[::1]", False),
        ("::ffff:127.0.0.1", False),
        ("localhost", False),
        ("me.localhost", False),
        ("0.0.0.0", True),
        ("::", True),
        ("0", True),
        ("192.0.2.1", True),
        ("fe80::1", True),
        ("some-name", False),  # its addresses are known once they are bound: see test_client_token
    ],
)
@pytest.mark.parametrize("key", ['key_env = "K"', 'add_headers = { ocp-apim-subscription-key = "k" }'])
def test_keys_are_not_for_everybody(host: str, refused: bool, key: str, tmp_path: Path) -> None:
    def start(text: str) -> None:
        check_start(load(write(tmp_path, f'host = "{host}"\n{text}'), {}), {"K": "k"})

    if refused:
        with pytest.raises(
            ConfigError,
            match=r"demur\.toml:1: route 2 \(.*demur\.toml:5\) adds a key, and host is .*: anybody .*Set client_",
        ):
            start(HEAD + HEAD + key)
    else:
        start(HEAD + HEAD + key)
    start('client_token = "t"\n' + HEAD + key)
    start(HEAD + 'add_headers = { openai-organization = "o" }')


def test_config_shows_routes_without_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path, TWO)
    monkeypatch.setenv("ANTHROPIC_KEY", "s3cret-key")
    for command in (["show"], ["show", "--json"], ["check"]):
        assert run(["config", *command, "--config", str(file)]) == 0
        assert "s3cret" not in (out := capsys.readouterr().out)
        if command == ["show"]:
            key = "key of ANTHROPIC_KEY in x-api-key; adds anthropic-version"
            assert out.splitlines()[-2:] == [
                f"route 1  models claude-* anthropic/* → https://api.anthropic.com/v1; {key}  {file}:2",
                f"route 2  paths /vllm → http://127.0.0.1:8000; removes openai-organization  {file}:9",
            ]
        if "--json" in command:
            assert '"anthropic-version": "****"' in out
    monkeypatch.delenv("ANTHROPIC_KEY")
    assert run(["config", "show", "--config", str(file)]) == 0
    assert run(["config", "check", "--config", str(file)]) == 1
    assert f"{file}:5: route 1: key_env: the variable ANTHROPIC_KEY is not set" in capsys.readouterr().err


def test_no_repr_holds_the_value_of_a_header() -> None:
    route = Route.model_validate({"models": "m", "upstream": "http://a", "add_headers": {"a": "s3cret"}})
    for text in (repr(route), str(route), repr(Settings(route=(route,))), repr(route.masked())):
        assert "s3cret" not in text
        assert "http://a" in text
