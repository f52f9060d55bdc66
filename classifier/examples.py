"""Every lexicon rule carries examples; here they are held against the compiled rules, ours and a user's alike.

A user's file is checked whenever it is loaded, ours by the tests.
"""

from __future__ import annotations

from collections.abc import Iterable

from demur.classifier.lexicon import LexiconError, Rule
from demur.classifier.rulebook import Rulebook
from demur.classifier.signals import gather
from demur.classifier.trace import Ask


def fires(rule: Rule, text: str, book: Rulebook) -> bool:
    """Whether `rule` counts on `text` as a whole response."""
    scan = book.matcher.scan()
    scan.run(text)
    evidence = gather(Ask(), text, 0, scan, book)
    return any(finding.fired and finding.rule is rule for finding in evidence.findings)


def check_examples(checked: Iterable[Rule], book: Rulebook) -> None:
    """Raises LexiconError for the first example of `checked` that does not hold."""
    for rule in checked:
        for wanted, texts in ((True, rule.yes), (False, rule.no)):
            for text in texts:
                if fires(rule, text, book) is not wanted:
                    what = "'yes' example is not found" if wanted else "'no' example is found"
                    raise LexiconError(f"{rule.file}: rule {rule.id}: the {what}: {text!r}")
