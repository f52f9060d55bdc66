"""Every rule and act of a lexicon carries examples; here they are held against what was compiled, ours and a user's.

A user's file is checked whenever it is loaded, ours by the tests.
"""

from __future__ import annotations

from collections.abc import Iterable

from demur.classifier.act import Act
from demur.classifier.clauses import clauses
from demur.classifier.lexicon import LexiconError, Rule
from demur.classifier.rulebook import Rulebook
from demur.classifier.signals import gather
from demur.classifier.trace import Ask
from demur.classifier.voice import find_voice


def fires(rule: Rule, text: str, book: Rulebook) -> bool:
    """Whether `rule` counts on `text` as a whole response."""
    scan = book.matcher.scan()
    scan.run(text)
    evidence = gather(Ask(), text, 0, scan, book)
    return any(finding.fired and finding.rule is rule for finding in evidence.findings)


def shows(act: Act, text: str, book: Rulebook) -> bool:
    """Whether `text` as a whole response shows `act`."""
    return any(
        deed.act.id == act.id
        for clause in clauses(text, find_voice(text, 0), book.tongues((act.language,)))
        for deed in clause.deeds
    )


def check_examples(checked: Iterable[Rule | Act], book: Rulebook) -> None:
    """Raises LexiconError for the first example of `checked` that does not hold."""
    for entry in checked:
        kind = "act" if isinstance(entry, Act) else "rule"
        for wanted, texts in ((True, entry.yes), (False, entry.no)):
            for text in texts:
                found = shows(entry, text, book) if isinstance(entry, Act) else fires(entry, text, book)
                if found is not wanted:
                    what = "'yes' example is not found" if wanted else "'no' example is found"
                    raise LexiconError(f"{entry.file}: {kind} {entry.id}: the {what}: {text!r}")
