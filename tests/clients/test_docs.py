"""Every example of docs/clients.md prints the verdict, in the client that it is about; the versions are those tried."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from both_ways import Ways

HERE = Path(__file__).parent
TEXT = (HERE.parent.parent / "docs/clients.md").read_text("utf-8")
KEYS = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), "sk-none")


def examples(language: str) -> list[Any]:
    """Each example, under the name of its section."""
    found, section = [], ""
    for line, name, body in re.findall(r"^## ([^\n]+)$|^```(\w+)\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE):
        section = line or section
        if name == language:
            found.append(pytest.param(body, id=section))
    return found


def printed(command: list[str], example: str, ways: Ways) -> list[str]:
    """What the example prints behind the proxy, with a model that refuses."""
    assert "http://127.0.0.1:8787" in example
    code = example.replace("http://127.0.0.1:8787", ways.proxied)
    code = re.sub(r'"(openai/)?(?:gpt-4o-mini|claude-sonnet-4-5|gemini-2\.5-flash|llama3\.2)"', r'"\1refusal"', code)
    environment = {"PATH": os.environ["PATH"], "LITELLM_LOCAL_MODEL_COST_MAP": "True", **KEYS}
    done = subprocess.run(
        [*command, code], cwd=HERE, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("example", examples("python"))
def test_python(ways: Ways, example: str) -> None:
    lines = printed([sys.executable, "-c"], example, ways)
    prints = len(re.findall(r"\bprint\(", example))
    assert lines == ["hard_refusal"] * max(prints, 2)  # of JSON and of a stream, be it in one loop


@pytest.mark.parametrize("example", examples("js"))
def test_node(ways: Ways, example: str) -> None:
    lines = printed(["node", "--input-type=module", "--eval"], example, ways)
    times = 2 if "for (const model of" in example else 1
    assert lines == ["hard_refusal"] * example.count("console.log(") * times


@pytest.mark.parametrize("name", ["anthropic", "google-genai", "langchain-openai", "litellm", "ollama", "openai"])
def test_python_packages_have_the_version_that_was_tried(name: str) -> None:
    assert re.search(rf"^\| {name}(?: \(Python[^|]*)? \| {re.escape(version(name))} \|", TEXT, re.MULTILINE)


@pytest.mark.parametrize(
    "name", ["openai", "ai", "@ai-sdk/openai", "@ai-sdk/openai-compatible", "@langchain/openai", "@anthropic-ai/sdk"]
)
def test_node_packages_have_the_version_that_was_tried(name: str) -> None:
    packages = json.loads((HERE / "package-lock.json").read_text("utf-8"))["packages"]
    found = re.escape(packages[f"node_modules/{name}"]["version"])
    assert re.search(rf"^\|.*\b{name}`?(?: \(Node\))?(?: \|)? {found}\b".replace(r"\b@", "@"), TEXT, re.MULTILINE)
