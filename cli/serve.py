"""`demur serve`: reads the settings, says where verdicts go, and runs the proxy until it is told to stop."""

from __future__ import annotations

from pathlib import Path

import click

from demur.cli.judge_settings import judge_options
from demur.cli.main import needs_proxy
from demur.cli.options import Sectioned, check_before_start, load_settings, settings_flags
from demur.config import Settings


@click.command(short_help="Run the proxy.", cls=Sectioned)
@settings_flags()
def command(config: Path | None, **flags: object) -> int:
    """Run the proxy. Every response goes on byte for byte and is judged on the way; a stream gets one JSON key more.

    Point a client's base_url at it. Its key, its model and its other settings stay as they are.

    \b
    Try these:
      demur serve
      demur serve --upstream http://127.0.0.1:11434/v1
      demur serve --port 9000 --verdict-log verdicts.jsonl
      OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 demur serve

    Then read the verdict in the response header x-refusal-verdict, in the refusal_verdict key of a stream's last
    chunk, or under /-/verdicts/{x-refusal-id}.

    With --judge-url and --judge-model a language model reads, after delivery, the responses that the rules are not sure
    of: their texts leave this machine. What it says is a second line of the verdict log, and under /-/verdicts/.

    Every flag is a setting: the same key in demur.toml, or DEMUR_ and its name in the environment. A flag wins over
    the environment, and that over the file. See `demur config show`. Routes to other upstreams, by model or by path,
    are tables of the file. A time is a number of seconds, or has its unit: 300, 5m, 500ms. A size is a number of bytes,
    or has its unit: 2097152, 2MiB, 2MB.

    \b
    Exit codes:
      0  stopped by a signal, after open exchanges had their time to end
      1  wrong usage, a wrong setting, or a port that is taken
    """
    loaded = load_settings(config, flags)
    with needs_proxy("serve"):
        from demur.proxy.server import serve
    check_before_start(loaded)
    settings = loaded.settings
    options = judge_options(settings, "serve")

    def ready(url: str, admin_url: str) -> None:
        click.echo(_where(settings, url, admin_url))

    if options is None:
        return serve(settings, ready)
    from demur.audit.judge import JudgeError
    from demur.cli.background_judge import BackgroundJudge
    from demur.proxy.second_opinion import Reviews

    try:
        with BackgroundJudge(options) as judge:
            return serve(
                settings,
                ready,
                reviews=Reviews(judge, below=settings.judge_below, workers=settings.judge_concurrency),
            )
    except JudgeError as error:
        raise click.ClickException(str(error)) from None


def _where(settings: Settings, url: str, admin_url: str) -> str:
    """What listens where, where verdicts go, and what clients set."""
    places = ["response headers x-refusal-*", "GET /-/verdicts/ID"]
    if settings.stream_verdict == "chunk":
        places.insert(1, "the finish chunk of a stream")
    if settings.verdict_log:
        places.append(str(settings.verdict_log))
    lines = [
        f"demur listening on {url} → {settings.masked()['upstream']}",
        *(f"route:    {route}" for route in settings.route),
        f"metrics:  {admin_url}/metrics",
        f"verdicts: {'; '.join(places)}",
    ]
    if settings.judge_url and settings.judge_model:
        judge = f"{settings.judge_model} at {settings.masked()['judge_url']}"
        lines.append(f"judge:    {judge} gets the texts of verdicts below {settings.judge_below:g}")
    return "\n".join([*lines, f'client:   base_url="{url}/v1"'])
