"""Every lexicon rule carries examples; here they are held against the compiled rules, ours and a user's alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from demur.classifier.lexicon import LexiconError, Rule
from demur.classifier.matcher import Matcher
from demur.classifier.signals import gather
from demur.classifier.trace import Ask


def fires(rule: Rule, text: str, rules: Sequence[Rule], matcher: Matcher) -> bool:
    """Whether `rule` counts on `text` as a whole response."""
    scan = matcher.scan()
    scan.run(text)
    evidence = gather(Ask(), text, 0, scan, rules)
    return any(finding.fired and finding.rule is rule for finding in evidence.findings)


def check_examples(checked: Iterable[Rule], rules: Sequence[Rule], matcher: Matcher) -> None:
    """Raises LexiconError for the first example of `checked` that does not hold."""
    for rule in checked:
        for wanted, texts in ((True, rule.yes), (False, rule.no)):
            for text in texts:
                if fires(rule, text, rules, matcher) is not wanted:
                    what = "'yes' example is not found" if wanted else "'no' example is found"
                    raise LexiconError(f"{rule.file}: rule {rule.id}: the {what}: {text!r}")
