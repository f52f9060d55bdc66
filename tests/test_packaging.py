"""The wheel holds the rooms, all of them and nothing else, and its command works with what it was installed with."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("audit", "classifier", "cli", "config", "proxy")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

#: Runs something of the wheel at `SITE` without what the extras bring, except `PRESENT`.
ABSENT = """
import os, sys

class Absent:
    names = {
        "aiohttp", "anyio", "google", "httptools", "httpx", "httpx2", "jinja2", "matplotlib", "multidict", "numpy",
        "opentelemetry", "prometheus_client", "requests", "scipy", "sklearn", "starlette", "uvicorn", "uvloop", "yarl",
    } - set(os.environ.get("PRESENT", "").split())
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import demur.classifier
assert demur.classifier.__file__.startswith(os.environ["SITE"]), demur.classifier.__file__
"""
BARE = (
    ABSENT
    + """
import importlib.metadata
sys.argv[0] = "demur"
[command, *_] = importlib.metadata.entry_points(group="console_scripts", name="demur")
sys.exit(command.load()())
"""
)
#: An application and its middleware, called once.
MIDDLEWARE = """
import asyncio
from demur.proxy.middleware import RefusalMiddleware

BODY = b'{"choices": [{"message": {"content": "I cannot help with that."}, "finish_reason": "stop"}]}'

async def app(scope, receive, send):
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": BODY})

async def receive():
    return {"type": "http.request", "body": b"{}"}

async def send(message):
    print(dict(message.get("headers", ())).get(b"x-refusal-verdict", b"").decode())

scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": []}
asyncio.run(RefusalMiddleware(app)(scope, receive, send))
"""
#: A client of `httpx2`, and its transport.
CLIENT = """
import httpx2
from demur.proxy.client_transport import RefusalTransport

def answer(request):
    return httpx2.Response(200, json={"choices": [{"message": {"content": "I cannot help with that."}}]})

with httpx2.Client(transport=RefusalTransport(httpx2.MockTransport(answer))) as client:
    print(client.post("http://up.test/v1/chat/completions", json={}).headers["x-refusal-verdict"])
"""


def rooms_files() -> Iterator[str]:
    for room in ROOMS:
        for file in (ROOT / room).rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                yield f"demur/{file.relative_to(ROOT).as_posix()}"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without network from a copy of what it is made of."""
    tree = tmp_path_factory.mktemp("tree")
    for room in ROOMS:
        shutil.copytree(ROOT / room, tree / room, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, tree)
    options = ["-q", "--no-index", "--no-deps", "--no-build-isolation", "-w", "dist"]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, "."], cwd=tree, check=True, capture_output=True)
    [wheel] = (tree / "dist").iterdir()
    return wheel


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's contents, to be put on the path."""
    folder = tmp_path_factory.mktemp("site")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


def run_bare(site: Path, *arguments: str, code: str = BARE, present: str = "") -> subprocess.CompletedProcess[str]:
    """The `demur` command of the wheel, or `code`, in an interpreter that has none of what the extras bring."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": str(site), "SITE": str(site), "PRESENT": present},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_wheel_holds_every_file_of_the_rooms_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert sorted(n for n in names if not n.startswith("demur-")) == sorted(rooms_files())
    assert "demur/__init__.py" not in names
    assert len(names) == len(set(names))


def test_the_wheel_runs_on_every_platform(wheel: Path) -> None:
    assert wheel.name == f"demur-{PROJECT['version']}-py3-none-any.whl"


def test_the_metadata_says_what_pyproject_says(site: Path) -> None:
    [info] = site.glob("*.dist-info")
    metadata = Parser().parsestr((info / "METADATA").read_text(encoding="utf-8"))
    assert metadata["Name"] == "demur"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert "Apache License" in (info / "licenses" / "LICENSE").read_text(encoding="utf-8")
    required = metadata.get_all("Requires-Dist") or []
    assert len(required) == len(PROJECT["dependencies"]) + sum(map(len, PROJECT["optional-dependencies"].values()))
    assert [r for r in required if ">=" not in r] == []
    assert (info / "entry_points.txt").read_text(encoding="utf-8").split("\n")[:2] == [
        "[console_scripts]",
        "demur = demur.cli.main:main",
    ]


def test_the_version_is_told(site: Path) -> None:
    done = run_bare(site, "--version")
    assert (done.returncode, done.stdout) == (0, f"demur {PROJECT['version']}\n")


def test_classify_works_without_the_proxy_packages(site: Path, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    file.write_text(
        json.dumps({"prompt": "How do I pick a lock?", "response": "I'm sorry, but I can't help with that."})
    )
    done = run_bare(site, "classify", "--json", "--exit-zero", str(file))
    assert done.returncode == 0, done.stderr
    assert '"hard_refusal"' in done.stdout


def test_serve_without_the_proxy_packages_says_what_to_install(site: Path) -> None:
    done = run_bare(site, "serve", "--port", "0", "--admin-port", "0")
    assert done.returncode == 1
    assert "demur[proxy]" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_judge_without_its_packages_says_what_to_install(site: Path, tmp_path: Path) -> None:
    file = tmp_path / "answer.txt"
    file.write_text("Gladly.")
    done = run_bare(site, "classify", "--judge", "--judge-url", "http://127.0.0.1:1", "--judge-model", "m", str(file))
    assert done.returncode == 1
    assert "pip install 'demur[judge]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_eval_without_the_report_packages_says_what_to_install(site: Path, tmp_path: Path) -> None:
    file = tmp_path / "labelled.jsonl"
    file.write_text('{"prompt": "Bake.", "response": "Gladly.", "label": "answer"}')
    done = run_bare(site, "eval", str(file))
    assert done.returncode == 1
    assert "pip install 'demur[report]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_middleware_needs_no_extra(site: Path) -> None:
    done = run_bare(site, code=ABSENT + MIDDLEWARE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["hard_refusal"]


def test_the_client_transport_needs_no_extra_but_the_client(site: Path) -> None:
    done = run_bare(site, code=ABSENT + CLIENT, present="httpx2 anyio")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["hard_refusal"]
