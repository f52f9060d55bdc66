"""Lexicon files: TOML in, checked rules out. A bad file is refused with its name, the rule and the reason.

Our own files and a user's go through the same door. Nothing here judges a text.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from demur.classifier.act import ACTS, WHERE, Act
from demur.classifier.fold import fold_pattern
from demur.classifier.grammar import GrammarError, Pattern, expand
from demur.classifier.verdict import Label

LANGUAGES = ("en", "zh", "ja", "ko", "es", "fr", "de", "pt", "it", "ru", "ar", "hi", "tr", "nl", "pl", "vi", "id")
#: What an ask may want, as a lexicon tells it (`[asks]`): a text of its own; one that is itself a no; a translation;
#: word of the model itself; a figure; code; work on a given text; whether something is right or lawful; harsh words.
WISHES = frozenset(
    {"content", "refusal", "translation", "model", "figure", "list", "code", "work", "judgement", "harsh"}
)
#: Where our files of every language stand: the rules that find a refusal, the acts that code it.
RULES, CODING = "lexicons", "acts"
PLACES = ("start", "alone", "first", "opening", "later", "anywhere")
#: Places at the start of a sentence.
OPENS = frozenset({"start", "alone"})
#: Places that need not be in the first part of the answer.
BEYOND_HEAD = frozenset({"later", "anywhere"})
Expand = Callable[[str], Pattern]
#: Signals that no phrase carries: facts of the API, and the learned one.
_NOT_FOR_RULES = frozenset({"content_filter", "refusal_field", "learned_wording"})
_RULE_KEYS = ("id", "signal", "weight", "where", "phrases", "unless", "why", "yes", "no")
_ACT_KEYS = ("id", "act", "where", "phrases", "unless", "why", "yes", "no")
_FILE_KEYS = {"language", "macros", "rule", "act", "words", "numbers", "counts", "sides", "praise", "blame", "asks"}
#: How the ids of what no lexicon holds begin.
_BUILT_IN = ("wording", "delivery.", "fact.", "layers.")
#: The same of our acts, which are read when they are needed.
_OUR_ACTS = tuple(f"{language}.act." for language in LANGUAGES)
#: From two to twelve.
_COUNTS = 11
#: A larger file is a mistake; ours have well under 1 MB.
MAX_BYTES = 8 * 2**20


class LexiconError(Exception):
    """A lexicon file that cannot be used: names the file, the rule and what is wrong."""


@dataclass(frozen=True, slots=True)
class SignalKind:
    """A named signal: the label it votes for and what it means."""

    name: str
    target: Label
    why: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One lexicon rule. `unless` are patterns that void a hit when they stand in the same sentence."""

    id: str
    signal: SignalKind
    weight: float
    where: str
    phrases: tuple[Pattern, ...]
    unless: tuple[Pattern, ...]
    why: str
    yes: tuple[str, ...]
    no: tuple[str, ...]
    language: str
    file: str


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Words of a language, folded: frequent ones that tell it, words for numbers, those for two to twelve with what
    they count, pairs for the two sides of a question (the favourable one first), words that praise and that find
    fault."""

    words: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    counts: tuple[tuple[str, int], ...] = ()
    sides: tuple[tuple[str, str], ...] = ()
    praise: frozenset[str] = frozenset()
    blame: frozenset[str] = frozenset()

    def __or__(self, other: Vocabulary) -> Vocabulary:
        return Vocabulary(
            self.words | other.words,
            self.numbers | other.numbers,
            self.counts + other.counts,
            self.sides + other.sides,
            self.praise | other.praise,
            self.blame | other.blame,
        )


@dataclass(frozen=True, slots=True)
class Lexicon:
    """One file: its rules, its words, `asks`: patterns that stand in an ask, by what it then wants (`WISHES`), and the
    acts by which a refusal is coded."""

    language: str
    rules: tuple[Rule, ...]
    vocabulary: Vocabulary = Vocabulary()
    asks: Mapping[str, tuple[Pattern, ...]] = field(default_factory=dict)
    acts: tuple[Act, ...] = ()


@cache
def signal_kinds() -> Mapping[str, SignalKind]:
    """Every signal by name, from `signals.toml`."""
    data = tomllib.loads(files("demur.classifier").joinpath("signals.toml").read_text("utf-8"))
    return {name: SignalKind(name, entry["target"], entry["why"]) for name, entry in data.items()}


def load_lexicons(
    extra: Iterable[Path] = (), languages: Collection[str] | None = None
) -> tuple[tuple[Lexicon, ...], str]:
    """Our lexicons for `languages` (None: all), then the files in `extra`, and the version of them and of our acts.

    Raises LexiconError.
    """
    ours = files("demur.classifier")
    for language in languages or ():
        if language not in LANGUAGES:
            raise LexiconError(f"no lexicon for the language {language!r}; there are: {', '.join(LANGUAGES)}")
    digest = hashlib.sha256()
    for numbers in ("fitted.toml", "weights.toml", "wording.txt"):
        digest.update(ours.joinpath(numbers).read_bytes())
    lexicons: list[Lexicon] = []
    chosen = [language for language in LANGUAGES if languages is None or language in languages]
    own = [ours.joinpath(RULES, f"{language}.toml") for language in chosen]
    for name, file in [(f"{RULES}/{file.name}", file) for file in own] + [(str(path), path) for path in extra]:
        text = _read(file, name)
        digest.update(text.encode())
        lexicons.append(read_lexicon(text, name))
    for language in chosen:
        digest.update(ours.joinpath(CODING, f"{language}.toml").read_bytes())
    seen: dict[str, str] = {}
    entries: list[Rule | Act] = []
    for lexicon in lexicons:
        entries += (*lexicon.rules, *lexicon.acts)
    for entry in entries:
        if entry.id in seen:
            raise LexiconError(f"{entry.file}: rule {entry.id}: the id is taken already, in {seen[entry.id]}")
        if entry.id.startswith(_OUR_ACTS):
            raise LexiconError(f"{entry.file}: rule {entry.id}: ids such as {entry.id[:7]}… are those of our acts")
        seen[entry.id] = entry.file
    return tuple(lexicons), digest.hexdigest()[:12]


def our_acts(language: str) -> tuple[Act, ...]:
    """The acts of one of our languages."""
    text = files("demur.classifier").joinpath(CODING, f"{language}.toml").read_text("utf-8")
    return read_lexicon(text, f"{CODING}/{language}.toml").acts


def words_of_languages() -> Mapping[str, frozenset[str]]:
    """The frequent words of each of our languages, whether its rules are used or not."""
    ours = files("demur.classifier").joinpath("lexicons")
    texts = ((language, ours.joinpath(f"{language}.toml").read_text("utf-8")) for language in LANGUAGES)
    return {language: _words(tomllib.loads(_head(text)), "words", language) for language, text in texts}


def _head(text: str) -> str:
    """The file before its first table, where the words stand: reading all of it would take ten times as long."""
    return text[: text.index("\n[")]


def _read(file: Path | Traversable, name: str) -> str:
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise LexiconError(f"{name}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise LexiconError(f"{name}: is not UTF-8 text, at byte {error.start}") from error
    if len(content) > MAX_BYTES:
        raise LexiconError(f"{name}: is larger than {MAX_BYTES >> 20} MiB, so it is not a lexicon")
    return text


def read_lexicon(text: str, name: str) -> Lexicon:
    """The lexicon of one file with content `text`; `name` stands in errors. Raises LexiconError."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise LexiconError(f"{name}: not TOML: {error}") from error
    except ValueError:  # Python's own, from int(): its words are about Python
        raise LexiconError(f"{name}: not TOML: {_long_number(text)}: a number has too many digits") from None
    except RecursionError:
        raise LexiconError(f"{name}: nested too deeply") from None
    _only(data, _FILE_KEYS, name)
    language = data.get("language")
    if not isinstance(language, str) or not language:
        raise LexiconError(f"{name}: 'language' is missing (a code such as \"en\")")
    macros = data.get("macros", {})
    if not isinstance(macros, dict) or not all(isinstance(v, str) for v in macros.values()):
        raise LexiconError(f"{name}: 'macros' must be a table of strings")
    expanding = partial(expand, macros=macros, known={})
    return Lexicon(
        language,
        tuple(_rule(entry, where, name, language, expanding) for where, entry in _entries(data, "rule", name)),
        Vocabulary(
            words=_words(data, "words", name),
            numbers=_words(data, "numbers", name),
            counts=_counts(data, name),
            sides=_pairs(data.get("sides", []), name),
            praise=_words(data, "praise", name),
            blame=_words(data, "blame", name),
        ),
        _asks(data.get("asks", {}), name, expanding),
        tuple(_act(entry, where, name, language, expanding) for where, entry in _entries(data, "act", name)),
    )


def _entries(data: dict[str, Any], kind: str, file: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The tables of one kind, each with how errors name it."""
    entries = data.get(kind, [])
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise LexiconError(f"{file}: '{kind}' must be a list of tables, [[{kind}]]")
    for number, entry in enumerate(entries, 1):
        id = entry.get("id")
        if not isinstance(id, str) or not id:
            raise LexiconError(f"{file}: {kind} number {number}: 'id' is missing")
        if id.startswith(_BUILT_IN):
            raise LexiconError(f"{file}: {kind} {id}: the ids {', '.join(_BUILT_IN)} are taken")
        yield f"{file}: {kind} {id}", entry


def _words(data: dict[str, Any], key: str, name: str) -> frozenset[str]:
    words = frozenset(map(fold_pattern, _texts(data, key, name))) if key in data else frozenset()
    if not all(map(str.strip, words)):
        raise LexiconError(f"{name}: '{key}' has a word without a letter")
    return words


def _counts(data: dict[str, Any], name: str) -> tuple[tuple[str, int], ...]:
    """From a list of the words for two to twelve, those for one number parted by "|"."""
    texts = _texts(data, "counts", name) if "counts" in data else ()
    if len(texts) not in (0, _COUNTS):
        raise LexiconError(f"{name}: 'counts' must have {_COUNTS} texts, the words for two to twelve")
    counts = tuple((fold_pattern(word), count) for count, text in enumerate(texts, 2) for word in text.split("|"))
    if not all(word.strip() for word, _ in counts):
        raise LexiconError(f"{name}: 'counts' has a word without a letter")
    return counts


def _pairs(value: object, name: str) -> tuple[tuple[str, str], ...]:
    pairs = [tuple(pair) for pair in value if isinstance(pair, list)] if isinstance(value, list) else []
    if pairs != [] and not all(
        len(pair) == 2 and all(isinstance(word, str) and word for word in pair) for pair in pairs
    ):
        pairs = []
    if not isinstance(value, list) or len(pairs) != len(value):
        raise LexiconError(f"{name}: 'sides' must be a list of pairs of words")
    folded = tuple((fold_pattern(one), fold_pattern(other)) for one, other in pairs)
    if not all(word.strip() for pair in folded for word in pair):
        raise LexiconError(f"{name}: 'sides' has a word without a letter")
    return folded


def _asks(table: object, name: str, expanding: Expand) -> dict[str, tuple[Pattern, ...]]:
    if not isinstance(table, dict):
        raise LexiconError(f"{name}: 'asks' must be a table of lists of patterns")
    where = f"{name}: asks"
    _only(table, WISHES, where)
    return {wish: _patterns(table, wish, where, expanding) for wish in table}


def _act(entry: dict[str, Any], where: str, file: str, language: str, expanding: Expand) -> Act:
    _keys(entry, _ACT_KEYS, where, optional={"where", "unless"})
    name = entry["act"]
    if not isinstance(name, str) or name not in ACTS:
        raise LexiconError(f"{where}: unknown act {_shown(name)}; known: {', '.join(ACTS)}")
    place = entry.get("where", "anywhere")
    if place not in WHERE:
        raise LexiconError(f"{where}: 'where' must be one of {', '.join(WHERE)}, not {_shown(place)}")
    return Act(
        id=entry["id"],
        name=name,
        phrases=_patterns(entry, "phrases", where, expanding),
        unless=_patterns(entry, "unless", where, expanding) if "unless" in entry else (),
        why=_sentence(entry, where),
        yes=_texts(entry, "yes", where),
        no=_texts(entry, "no", where),
        language=language,
        file=file,
        where=place,
    )


def _rule(entry: dict[str, Any], where: str, file: str, language: str, expanding: Expand) -> Rule:
    _keys(entry, _RULE_KEYS, where, optional={"where", "unless"})
    signal = entry["signal"]
    kinds = {name: kind for name, kind in signal_kinds().items() if name not in _NOT_FOR_RULES}
    kind = kinds.get(signal) if isinstance(signal, str) else None
    if kind is None:
        raise LexiconError(f"{where}: unknown signal {_shown(signal)}; known: {', '.join(kinds)}")
    weight = entry["weight"]
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight <= 1:
        raise LexiconError(f"{where}: 'weight' must be a number above 0, at most 1, not {_shown(weight)}")
    place = entry.get("where", "opening")
    if place not in PLACES:
        raise LexiconError(f"{where}: 'where' must be one of {', '.join(PLACES)}, not {_shown(place)}")
    return Rule(
        id=entry["id"],
        signal=kind,
        weight=float(weight),
        where=place,
        phrases=_patterns(entry, "phrases", where, expanding),
        unless=_patterns(entry, "unless", where, expanding) if "unless" in entry else (),
        why=_sentence(entry, where),
        yes=_texts(entry, "yes", where),
        no=_texts(entry, "no", where),
        language=language,
        file=file,
    )


def _keys(entry: dict[str, Any], known: Collection[str], where: str, optional: Collection[str]) -> None:
    """All keys must be known, and none but the optional ones may be missing."""
    _only(entry, known, where)
    for key in known:
        if key not in entry and key not in optional:
            raise LexiconError(f"{where}: '{key}' is missing")


def _sentence(entry: dict[str, Any], where: str) -> str:
    why = entry["why"]
    if not isinstance(why, str) or not why.strip():
        raise LexiconError(f"{where}: 'why' must be a sentence")
    return why


def _patterns(entry: dict[str, Any], key: str, where: str, expanding: Expand) -> tuple[Pattern, ...]:
    try:
        return tuple(expanding(source) for source in _texts(entry, key, where))
    except GrammarError as error:
        raise LexiconError(f"{where}: '{key}': {error}") from error


def _texts(entry: dict[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = entry[key]
    if not isinstance(value, list) or not value or not all(isinstance(v, str) and v for v in value):
        raise LexiconError(f"{where}: '{key}' must be a list of at least one text")
    return tuple(value)


def _only(table: dict[str, Any], known: Collection[str], where: str) -> None:
    for key in table:
        if key not in known:
            raise LexiconError(f"{where}: unknown key {key!r}; known: {', '.join(sorted(known))}")


def _shown(value: object) -> str:
    """A wrong value, cut short; a table may be too deep and a number too long to be written."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return "the value"
    return text if len(text) <= 100 else f"{text[:99]}…"


def _long_number(text: str) -> str:
    found = re.search(r"[0-9_]{4000}", text)
    return f"line {text.count(chr(10), 0, found.start()) + 1}" if found else "somewhere"
