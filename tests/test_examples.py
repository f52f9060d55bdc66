"""Every example of every rule is a test named after its rule."""

from __future__ import annotations

import pytest

from demur.classifier.examples import check_examples, fires
from demur.classifier.lexicon import LexiconError, Rule, read_lexicon
from demur.classifier.rulebook import Rulebook

BOOK = Rulebook.load()
EXAMPLES = [
    pytest.param(rule, text, wanted, id=f"{rule.id}-{'yes' if wanted else 'no'}-{number}")
    for rule in BOOK.rules
    for wanted, texts in ((True, rule.yes), (False, rule.no))
    for number, text in enumerate(texts, 1)
]


@pytest.mark.parametrize(("rule", "text", "wanted"), EXAMPLES)
def test_example(rule: Rule, text: str, wanted: bool) -> None:
    assert fires(rule, text, BOOK) is wanted


@pytest.mark.parametrize(
    ("yes", "no", "complaint"),
    [
        ("Nothing of the kind.", "All is well.", "the 'yes' example is not found: 'Nothing of the kind.'"),
        ("Talk to the desk.", "You must talk to the desk.", "the 'no' example is found: 'You must talk to the desk.'"),
    ],
)
def test_an_example_that_does_not_hold_is_refused(yes: str, no: str, complaint: str) -> None:
    text = f"""
        language = "en"
        [[rule]]
        id = "site.desk"
        signal = "scope_limit"
        weight = 0.9
        phrases = ["talk to the desk"]
        why = "hands over"
        yes = ["{yes}"]
        no = ["{no}"]
    """
    book = Rulebook([read_lexicon(text, "site.toml")], "")
    with pytest.raises(LexiconError) as caught:
        check_examples(book.rules, book)
    assert str(caught.value) == f"site.toml: rule site.desk: {complaint}"
