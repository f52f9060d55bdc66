from __future__ import annotations

import contextlib
import os
import traceback
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.config import ConfigError, Loaded, describe, load


def write(folder: Path, text: str) -> Path:
    file = folder / "demur.toml"
    file.write_text(text, encoding="utf-8")
    return file


def problems(file: Path | None = None, env: dict[str, str] | None = None, **flags: object) -> list[str]:
    """The problems that `load` finds, without the folder of the file."""
    with pytest.raises(ConfigError) as info:
        load(file, env or {}, flags)
    assert str(info.value) == "\n".join(info.value.problems)
    return [p.replace(f"{file.parent}{os.sep}" if file else "\0", "") for p in info.value.problems]


def origins(loaded: Loaded) -> dict[str, str]:
    return {name: origin for name, origin in loaded.origins.items() if origin != "default"}


def test_without_any_source_every_value_is_the_default() -> None:
    loaded = load(env={})
    assert loaded.settings.upstream == "https://api.openai.com/v1"
    assert set(loaded.origins) == set(type(loaded.settings).model_fields)
    assert origins(loaded) == {}
    assert loaded.file is None


def test_flags_win_over_variables_over_the_file_over_defaults(tmp_path: Path) -> None:
    file = write(tmp_path, "# three of them\nport = 1001\nadmin_port = 1002\nverdict_keep = 1003\n")
    loaded = load(file, {"DEMUR_ADMIN_PORT": "2002", "DEMUR_VERDICT_KEEP": "2003"}, {"verdict_keep": 3003})
    settings = loaded.settings
    assert (settings.host, settings.port, settings.admin_port, settings.verdict_keep) == ("127.0.0.1", 1001, 2002, 3003)
    assert origins(loaded) == {"port": f"{file}:2", "admin_port": "DEMUR_ADMIN_PORT", "verdict_keep": "--verdict-keep"}
    assert loaded.file == file


def test_demur_toml_of_the_working_directory_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "port = 1001\n")
    monkeypatch.chdir(tmp_path)
    loaded = load(env={})
    assert loaded.settings.port == 1001
    assert loaded.origins["port"] == "demur.toml:1"


def test_the_environment_is_the_process_environment_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEMUR_PORT", "1001")
    assert load().settings.port == 1001


def test_an_empty_variable_and_an_absent_flag_are_not_set() -> None:
    loaded = load(env={"DEMUR_PORT": "", "DEMUR_HOST": " "}, flags={"admin_port": None, "lexicons": ()})
    assert origins(loaded) == {}


@pytest.mark.parametrize("off", ["false", '"off"', '"none"', '"OFF"'])
def test_what_can_be_off_is_switched_off(tmp_path: Path, off: str) -> None:
    names = ["verdict_log", "total_timeout", "admin_token", "ca_file"]
    loaded = load(write(tmp_path, "".join(f"{name} = {off}\n" for name in names)), {})
    assert [getattr(loaded.settings, name) for name in names] == [None] * 4


def test_a_variable_switches_off_what_the_file_sets(tmp_path: Path) -> None:
    file = write(tmp_path, 'verdict_log = "verdicts.jsonl"\ntotal_timeout = 5\n')
    loaded = load(file, {"DEMUR_VERDICT_LOG": "off"}, {"total_timeout": "none"})
    assert (loaded.settings.verdict_log, loaded.settings.total_timeout) == (None, None)
    assert origins(loaded) == {"verdict_log": "DEMUR_VERDICT_LOG", "total_timeout": "--total-timeout"}


def test_paths_start_from_the_folder_of_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    for name in ("own.toml", "ca.pem"):
        (folder / name).touch()
    own = (folder / "own.toml").as_posix()
    text = f'verdict_log = "log.jsonl"\nca_file = "ca.pem"\nlexicons = ["own.toml", "{own}"]\n'
    settings = load(write(folder, text), {}).settings
    assert settings.verdict_log == folder / "log.jsonl"
    assert settings.ca_file == folder / "ca.pem"
    assert settings.lexicons == (folder / "own.toml", folder / "own.toml")


def test_paths_of_variables_and_flags_start_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.toml", "b.toml"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    env = {"DEMUR_LEXICONS": f"a.toml{os.pathsep}~/b.toml", "DEMUR_VERDICT_LOG": "x.jsonl"}
    assert load(None, env).settings.lexicons == (Path("a.toml"), tmp_path / "b.toml")
    assert load(None, env).settings.verdict_log == Path("x.jsonl")
    assert load(None, env, {"lexicons": ("b.toml",)}).settings.lexicons == (Path("b.toml"),)


def test_an_unknown_key_names_file_line_and_the_nearest_setting(tmp_path: Path) -> None:
    file = write(tmp_path, "# upstrem = 1\n\nupstrem = 'http://localhost:1'\nidle-timeout = 3\n")
    assert problems(file) == [
        "demur.toml:3: unknown setting 'upstrem'; did you mean upstream?",
        "demur.toml:4: unknown setting 'idle-timeout'; did you mean idle_timeout?",
    ]


@pytest.mark.parametrize("table", ["[xyzzy]\nport = 3", "[[xyzzy]]\nport = 3", "xyzzy.port = 3"])
def test_an_unknown_table_is_told_that_settings_stand_at_the_top(tmp_path: Path, table: str) -> None:
    [problem] = problems(write(tmp_path, f"port = 0\n{table}\n"))
    said, _, advice = problem.partition("; ")
    assert said == "demur.toml:2: unknown section 'xyzzy': a settings file has none but [[route]]"
    assert advice == "settings stand at its top, such as port = 8787"


@pytest.mark.parametrize("value", ["3", "['a']", "[]", "'a'"])
def test_a_setting_that_is_like_no_other_is_told_where_all_are(tmp_path: Path, value: str) -> None:
    assert problems(write(tmp_path, f"xyzzy = {value}\n")) == [
        "demur.toml:1: unknown setting 'xyzzy'; `demur config show` lists all that there are"
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("port = 1\nhost = 'a'\nport = 2\n", "demur.toml:3: port is set twice"),
        ("lexicons = [\n'a',\n]\n\"lexicons\" = [\n'b',\n]\n", "demur.toml:4: lexicons is set twice"),
        ("[[route]]\nmodels = 'a'\n models = 'b'\n", "demur.toml:3: models is set twice"),
    ],
)
def test_a_key_that_is_set_twice_is_named(tmp_path: Path, text: str, problem: str) -> None:
    assert problems(write(tmp_path, text)) == [problem]


@pytest.mark.parametrize("value", ["'yes'", "'on'", "'1'", "1", "0", "'t'", "''", "1.0", "[true]"])
def test_a_switch_takes_what_its_words_say_and_no_more(tmp_path: Path, value: str) -> None:
    [problem] = problems(write(tmp_path, f"buffer = {value}\n"))
    assert problem.startswith("demur.toml:1: buffer: ")
    assert problem.endswith(" is not true or false")
    for written, read in (("true", True), ("'true'", True), ("' False '", False)):
        assert load(write(tmp_path, f"buffer = {written}\n"), {}).settings.buffer is read


def test_an_unknown_variable_and_flag_are_named_as_they_are_written() -> None:
    assert problems(None, {"DEMUR_UPSTREEM": "secret", "HOME": "/"}, prot=1) == [
        "DEMUR_UPSTREEM: unknown setting 'upstreem'; did you mean DEMUR_UPSTREAM?",
        "--prot: unknown setting 'prot'; did you mean --port?",
    ]


def test_all_problems_come_at_once_each_with_its_place(tmp_path: Path) -> None:
    file = write(tmp_path, 'prot = 1\n"port" = 99999\nstream_verdict = "chonk"\n')
    *most, last = problems(file, {"DEMUR_IDLE_TIMEOUT": "3 weeks"}, min_confidence="1.5")
    assert most == [
        "demur.toml:1: unknown setting 'prot'; did you mean port?",
        "demur.toml:2: port: 99999 is not a port number from 0 to 65535",
        "demur.toml:3: stream_verdict: 'chonk' is not one of chunk, off; did you mean 'chunk'?",
        "--min-confidence: '1.5' is not a number from 0 to 1",
    ]
    assert last.startswith("DEMUR_IDLE_TIMEOUT: '3 weeks' is not a time above 0, in seconds or such as ")
    assert last.endswith("the unit 'weeks' is none of ms, s, m, min, h")


def test_a_wrong_list_is_one_problem(tmp_path: Path) -> None:
    [problem] = problems(write(tmp_path, "lexicons = [1, 2]\n"))
    assert problem.startswith("demur.toml:1: lexicons: [1, 2] is not a list of files")


def test_a_missing_file_is_one_clear_clause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "folder"
    folder.mkdir()
    [problem] = problems(write(folder, 'ca_file = "none.pem"\n'))
    assert problem == f"demur.toml:1: ca_file: the file {str(folder / 'none.pem')!r} does not exist".replace(
        f"{folder}{os.sep}", ""
    )
    assert problems(None, None, lexicons=("none.toml",)) == ["--lexicons: the file 'none.toml' does not exist"]
    assert problems(None, {"DEMUR_LEXICONS": "folder"}) == ["DEMUR_LEXICONS: the file 'folder' is not a regular file"]
    [problem] = problems(None, {"DEMUR_CA_FILE": "n" * 5000})
    assert problem.endswith("can't be read: File name too long")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("port = 1\nhost = \n", "demur.toml:2:8: not valid TOML: "),
        ('port = 1\n\nhost = """', "demur.toml:3: not valid TOML: "),
    ],
)
def test_a_syntax_error_names_the_line(tmp_path: Path, text: str, place: str) -> None:
    [problem] = problems(write(tmp_path, text))
    assert problem.startswith(place)
    assert "(at" not in problem


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    assert problems(tmp_path / "absent.toml") == ["absent.toml: can't be read: No such file or directory"]
    (tmp_path / "demur.toml").write_bytes(b"port = 1 # \xff")
    assert problems(tmp_path / "demur.toml") == ["demur.toml: is not UTF-8 text, at byte 11"]


def test_listeners_on_the_same_port_name_both_origins() -> None:
    assert problems(None, {"DEMUR_ADMIN_PORT": "8787"}) == [
        "DEMUR_ADMIN_PORT: both listeners would take port 8787: port from default, admin_port from DEMUR_ADMIN_PORT"
    ]


def test_secrets_stay_out_of_errors_and_their_tracebacks() -> None:
    env = {"DEMUR_ADMIN_TOKEN": "s3cret s3cret", "DEMUR_UPSTREAM": "https://me:s3cret@local host/"}
    env |= {"DEMUR_JUDGE_URL": "https://me:s3cret@local host/", "DEMUR_JUDGE_KEY_ENV": "sk-s3cret"}
    with pytest.raises(ConfigError) as info:
        load(None, env)
    assert len(info.value.problems) == 4
    assert "s3cret" not in "".join(traceback.format_exception(info.value))


@pytest.mark.parametrize(
    "url",
    [
        "http://h/v1?key=s3cret",
        "http://h/v1#s3cret",
        "http://s3cret@h/v1?x",
        "ftp://h/?s3cret",
        "http://[s3cret@h]/",
        "http://[s3cret]@h/",
        "h?key=s3cret",
    ],
)
@pytest.mark.parametrize("name", ["upstream", "judge_url"])
def test_no_error_repeats_credentials_or_a_query_of_a_url(name: str, url: str, tmp_path: Path) -> None:
    file = write(tmp_path, f'{name} = "{url}"\n')
    for from_file, variable, flag in ((file, "", None), (None, url, None), (None, "", url)):
        with pytest.raises(ConfigError) as info:
            load(from_file, {f"DEMUR_{name.upper()}": variable}, {name: flag})
        assert ": the value is not an http or https URL" in str(info.value)
        assert "s3cret" not in "".join(traceback.format_exception(info.value))


@pytest.mark.parametrize("value", ['["http://h?k=s3cret"]', '{s3cret = "s3cret"}', "[[['s3cret']]]"])
@pytest.mark.parametrize("name", ["upstream", "admin_token", "judge_url", "judge_key_env"])
def test_what_is_no_text_may_hold_a_secret_too(name: str, value: str, tmp_path: Path) -> None:
    [problem] = problems(write(tmp_path, f"{name} = {value}\n"))
    assert problem.startswith(f"demur.toml:1: {name}: the value is not ")
    assert "s3cret" not in problem


def test_half_a_judge_names_both_keys(tmp_path: Path) -> None:
    [problem] = problems(write(tmp_path, 'judge_model = "m"\n'))
    assert problem == (
        "demur.toml:1: a judge needs judge_url and judge_model, and judge_url is not set: "
        "judge_url from default, judge_model from demur.toml:1"
    )


def test_an_upstream_without_secrets_is_shown() -> None:
    [problem] = problems(None, {"DEMUR_UPSTREAM": "api.example/v1"})
    assert problem.startswith("DEMUR_UPSTREAM: 'api.example/v1' is not an http or https URL")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("host = 'a'\nport = " + "[" * 3000 + "]" * 3000, "demur.toml:2: port: nested too deeply"),
        ("port = [\n" + "[\n" * 3000 + "]" * 3001, "demur.toml:100: port: nested too deeply"),
        ("port =" + "{a=" * 3000 + "1" + "}" * 3000, "demur.toml:1: port: nested too deeply"),
        ("host = 'a'\nport = " + "9" * 5000, "demur.toml:2: port: a number has too many digits"),
        ("port = 0x" + "f" * 5000, "demur.toml:1: port: the value is not a port number from 0 to 65535"),
        ("verdict_keep = 0x" + "f" * 5000, "demur.toml:1: verdict_keep: the value is not a whole number"),
        ("idle_timeout = 0x" + "f" * 5000, "demur.toml:1: idle_timeout: the value is not a time"),
        ("port." + "a." * 3000 + "a = 1", "demur.toml:1: port: "),
        ("upstream." + "a." * 3000 + "a = 1", "demur.toml:1: upstream: the value is not an http"),
        ("lexicons = [" + "a," * 3 + "]", "demur.toml:1:13: not valid TOML: "),
        ("idle_timeout = inf", "demur.toml:1: idle_timeout: inf is not a time"),
        ("drain_seconds = nan", "demur.toml:1: drain_seconds: nan is not a time"),
        ("drain_seconds = -1", "demur.toml:1: drain_seconds: -1 is not a time"),
        ("drain_seconds = 1e300", "demur.toml:1: drain_seconds: 1e+300 is not a time"),
        ("inspect_bytes = 1e300", "demur.toml:1: inspect_bytes: 1e+300 is not a size"),
        ("port = 1979-05-27", "demur.toml:1: port: datetime.date(1979, 5, 27) is not a port number"),
        ("lexicons = '~nobody-of-this-name/a.toml'", "demur.toml:1: lexicons: '~nobody-of-this-name/a.toml' is not"),
        ("#" * 2**20 + "\n", "demur.toml: is larger than 1 MiB"),
    ],
    ids=lambda text: text[:40],
)
def test_values_beyond_reason_are_clear_errors(text: str, problem: str, tmp_path: Path) -> None:
    [found] = problems(write(tmp_path, text))
    assert found.startswith(problem)
    assert len(found) < 300


#: Whatever stands in a file or a variable: settings, or a ConfigError.
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(values=st.dictionaries(st.sampled_from(list(describe())), VALUES, min_size=1, max_size=4))
def test_any_value_is_a_setting_or_a_clear_error(values: dict[str, object]) -> None:
    with contextlib.suppress(ConfigError):
        repr(load(None, {}, values))


@settings(max_examples=200, deadline=None)
@given(name=st.sampled_from(list(describe())), value=st.text(st.characters(exclude_characters="\0"), max_size=30))
def test_any_variable_is_a_setting_or_a_clear_error(name: str, value: str) -> None:
    with contextlib.suppress(ConfigError):
        repr(load(None, {f"DEMUR_{name.upper()}": value}))


def test_a_value_beyond_a_bound_that_is_not_in_the_words_is_told_the_bound() -> None:
    [problem] = problems(None, {"DEMUR_TAG_LIMIT": "1000000001"})
    assert problem == "DEMUR_TAG_LIMIT: '1000000001' is not a whole number, 0 or more: it is more than 1000000000"
    [problem] = problems(None, {"DEMUR_IDLE_TIMEOUT": "999999h"})
    assert problem.endswith('"2m", "1h": it is more than 1000000000')


def test_long_values_are_clipped() -> None:
    [problem] = problems(None, {"DEMUR_PORT": "9" * 1000})
    assert len(problem) < 200
