"""The recipe for Node in docs/streams.md looks the verdict of a stream up."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

from fake_upstream import proxy, upstream
from test_readme import blocks
from test_streams_docs import OLLAMA, TEXT

HERE = Path(__file__).parent


def test_the_recipe_for_node() -> None:
    (example,) = blocks("js", TEXT)
    environment = {"PATH": os.environ["PATH"]}

    async def run() -> bytes:
        async with upstream(*OLLAMA) as up, proxy(up.url) as px:
            code = example.replace("http://127.0.0.1:8787", f"http://127.0.0.1:{px.port}")
            command = ["node", "--input-type=module", "--eval", code]
            node = await asyncio.create_subprocess_exec(
                *command, cwd=HERE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            async with asyncio.timeout(60):
                said, complaint = await node.communicate()
            assert complaint == b""
            return said

    assert asyncio.run(run()) == b"200 hard_refusal\n"
