"""`demur classify`: saved traces in, verdicts out; the exit code says whether something is flagged."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from demur.classifier import Classifier, Trace, Verdict, normalize
from demur.classifier.explain import Explanation
from demur.cli.classify_judge import FLAGS, Reviews, second_opinion
from demur.cli.options import load_settings, settings_flags
from demur.cli.traces import InputError, Item, line_batches, read_items
from demur.config import Settings

if TYPE_CHECKING:
    from demur.audit.second_opinion import SecondOpinion

FLAGGED = 2
#: What a trace may say of itself that comes back beside its verdict, for `demur report`, and as what it is read there.
_BESIDE: dict[str, tuple[type, ...]] = {"category": (str, int), "tag": (str, int), "time": (str, int, float)}


@dataclass(frozen=True, slots=True)
class Judged:
    """One item and what became of it. `explanation` is there when it was asked for."""

    item: Item
    trace: Trace
    verdict: Verdict
    explanation: Explanation | None = None

    def to_dict(self) -> dict[str, Any]:
        out = self.verdict.to_dict()
        out["id"] = self.item.id
        out |= {key: value for key in _BESIDE if (value := self._said(key)) is not None}
        if self.explanation is not None:
            out["explanation"] = [
                {"index": choice.verdict.index} | {k: v for k, v in choice.to_dict().items() if k != "verdict"}
                for choice in self.explanation.choices
            ]
        return out

    def _said(self, key: str) -> object:
        """What the trace says of itself, if the report can read it."""
        found = self.item.obj.get(key) if isinstance(self.item.obj, dict) else None
        known = isinstance(found, _BESIDE[key]) and not isinstance(found, bool)
        return found if known and (key != "time" or _is_time(found)) else None


def _is_time(value: Any) -> bool:
    from demur.audit.verdicts import read_time

    try:
        read_time(value)
    except ValueError:
        return False
    return True


class Judge:
    """Items to verdicts. Remembers whether one was flagged, how many there were, what got no label, by status, and what
    became of asking `opinion`, if there is one.

    A fault of ours costs that one line its label.
    """

    def __init__(
        self, classifier: Classifier, *, prompt: str, system: str, explain: bool, opinion: SecondOpinion | None = None
    ) -> None:
        self._classifier, self._prompt, self._system, self._explain = classifier, prompt, system, explain
        self._opinion = opinion
        self.flagged, self.seen, self.unjudged, self.reviews = False, 0, Counter[str](), Reviews()

    def __call__(self, item: Item) -> Judged:
        return self.all([item])[0]

    def all(self, items: Iterable[Item]) -> list[Judged]:
        """The items of a batch in their order; what needs a second opinion is asked about at the same time."""
        out = [self._by_rules(item) for item in items]
        if self._opinion is not None:
            verdicts = self._opinion.review([(judged.trace, judged.verdict) for judged in out])
            out = [replace(judged, verdict=verdict) for judged, verdict in zip(out, verdicts, strict=True)]
        for judged in out:
            self._count(judged.verdict)
        return out

    def _count(self, verdict: Verdict) -> None:
        self.flagged = self.flagged or verdict.is_refusal()
        self.seen += 1
        self.reviews.count(verdict)
        if verdict.label is None:
            self.unjudged[verdict.status] += 1

    def _by_rules(self, item: Item) -> Judged:
        trace, explanation = Trace(problem="unparsed", why=item.problem or ""), None
        try:
            if item.problem is None:
                trace = self._completed(normalize(item.obj))
            if self._explain:
                explanation = self._classifier.explain(trace)
            verdict = explanation.verdict if explanation else self._classifier.classify(trace)
        except Exception as fault:  # the next line must still be judged
            reason = f"classifier failed: {type(fault).__name__}: {fault}"
            verdict = Verdict(None, "not_classified", reason=reason, rules_version=self._classifier.rules_version)
        return Judged(item, trace, verdict, explanation)

    def _completed(self, trace: Trace) -> Trace:
        if not (self._prompt or self._system):
            return trace
        ask = trace.ask
        ask = replace(ask, prompt=ask.prompt or self._prompt, system=ask.system or self._system)
        return replace(trace, ask=ask)


@click.command(short_help="Judge saved responses.")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--jsonl", is_flag=True, help="One trace a line in, one verdict a line out, in the same order.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: an object for one trace, a list for several.")
@click.option("--prompt", default="", metavar="TEXT", help="What was asked, for traces that do not say it.")
@click.option("--system", default="", metavar="TEXT", help="The system message, for traces that do not say it.")
@click.option(
    "--explain", is_flag=True, help="Also show what decided, and every rule that matched: fired or suppressed, and why."
)
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if something is flagged.")
@click.option(
    "--judge",
    "ask_judge",
    is_flag=True,
    help="Ask a language model about verdicts that are not sure: those texts are sent to it.",
)
@settings_flags(["min_confidence", "languages", "lexicons", *FLAGS])
def command(
    files: tuple[str, ...],
    jsonl: bool,
    as_json: bool,
    prompt: str,
    system: str,
    explain: bool,
    exit_zero: bool,
    ask_judge: bool,
    config: Path | None,
    **flags: object,
) -> int:
    """Judge saved responses: was the ask answered, and if not, how was it declined?

    A FILE holds traces as JSON, JSON Lines, the capture of an SSE stream, or the plain text of one response; its
    content tells which. - is standard input, and so is no FILE at all when something is piped in. A trace may be a
    string, {"prompt", "response"}, {"request", "response"}, or the response object of OpenAI, Anthropic, Gemini,
    Bedrock or Ollama.

    \b
    Try these:
      echo "I'm sorry, but I can't help with that." | demur classify
      echo "Bread needs patience." | demur classify --prompt "Write a haiku"
      demur classify response.json --explain
      demur classify --jsonl traces.jsonl > verdicts.jsonl
      tail -f traces.jsonl | demur classify --jsonl -
      demur classify --judge response.json    (with a judge in demur.toml)

    --jsonl reads line by line in bounded memory. Blank lines are skipped; a line that can't be judged gets a verdict
    whose label is null and whose status and reason say why. How many these were is told on standard error.

    With --judge, the texts of verdicts less sure than --judge-below (1: of all) are sent to the language model that
    --judge-url and --judge-model name. Its label and codes then stand, and "review" keeps what the rules had said. If
    it declines, fails or is over its budget, the rules' verdict stays. Without --judge nothing leaves this machine.

    A verdict has the id of its trace, if that is a text or a number; a number that no reader could hold, like 1e999,
    comes back as text. With another id (true, null, a list, an object) or none, it has the trace's file and line.
    A trace's own `category`, `tag` and `time` come back beside its verdict, so that `demur report` can group by them.

    \b
    Exit codes:
      0  nothing is flagged (what can't be judged is told, and does not count)
      1  wrong usage, a judge that can't be asked, or a file that can't be read
         (the others are still judged)
      2  something is flagged: a hard_refusal, a disguised_refusal or shaped
    """
    if jsonl and as_json:
        raise click.UsageError("--jsonl already writes JSON, one verdict a line; leave --json out")
    if not files and sys.stdin.isatty():
        raise click.UsageError("give a FILE, or pipe something in")
    settings = load_settings(config, flags).settings
    classifier = make_classifier(settings)
    paths = files or ("-",)
    with second_opinion(settings, ask_judge, flags) as opinion:
        judge = Judge(classifier, prompt=prompt, system=system, explain=explain, opinion=opinion)
        readable = _write_lines(paths, judge) if jsonl else _write_all(paths, judge, as_json)
    if opinion is not None:
        _say(judge.reviews.told(opinion, judge.seen))
    if judge.unjudged:  # the exit code does not tell: a gate's log should
        _say(f"{judge.unjudged.total()} of {judge.seen} not judged{listed(judge.unjudged)}")
    if not readable:
        return 1
    return FLAGGED if judge.flagged and not exit_zero else 0


def make_classifier(settings: Settings) -> Classifier:
    """The classifier of these settings; what is wrong with a lexicon becomes the command's error."""
    from demur.classifier.lexicon import LexiconError

    try:
        return Classifier(
            lexicons=settings.lexicons, languages=settings.languages or None, min_confidence=settings.min_confidence
        )
    except LexiconError as error:
        raise click.ClickException(str(error)) from error


def _write_lines(paths: Sequence[str], judge: Judge) -> bool:
    """JSON Lines to JSON Lines. Every batch is flushed, so that a live pipe sees its verdicts at once."""
    out, readable = sys.stdout.buffer, True
    for path in paths:
        try:
            for batch in line_batches(path):
                out.write(b"".join([encode(judged.to_dict()) + b"\n" for judged in judge.all(batch)]))
                out.flush()
        except InputError as error:
            readable = _complain(error)
    return readable


def _write_all(paths: Sequence[str], judge: Judge, as_json: bool) -> bool:
    readable, results = True, []
    for path in paths:
        try:
            results += judge.all(read_items(path))
        except InputError as error:
            readable = _complain(error)
    if as_json and results:
        dicts = [judged.to_dict() for judged in results]
        sys.stdout.buffer.write(pretty(dicts if len(dicts) > 1 else dicts[0]))
    elif results:
        from demur.cli.render import show

        show(results)
    return readable


def _complain(error: InputError) -> bool:
    _say(str(error))
    return False


def _say(message: str) -> None:
    sys.stdout.flush()
    click.echo(f"demur classify: {message}", err=True)


def listed(counts: Counter[Any]) -> str:
    """How many of which, the most first, in brackets; nothing when there are none."""
    return f" ({', '.join(f'{count} {name}' for name, count in counts.most_common())})" if counts else ""


def pretty(value: object) -> bytes:
    """The value as indented JSON and a line's end."""
    data = encode(value)
    try:
        return msgspec.json.format(data, indent=2) + b"\n"
    except msgspec.DecodeError:  # half a pair, escaped: JSON for most readers, not for this one
        return json.dumps(json.loads(data), indent=2).encode() + b"\n"


def encode(value: object) -> bytes:
    """The value as JSON."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # half a surrogate pair came in: escaped, it can go out as well
        return json.dumps(value).encode()
