"""What the clauses of a refusal do: acts, and the phrases of a language that show them.

A lexicon file lists them as `[[act]]`; ours stand in `acts/<language>.toml`, beside the rules. What follows from an act
is the coder's to say, and the same in every language.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from demur.classifier.grammar import Pattern

#: Every act, and what a clause does that shows it.
ACTS: Mapping[str, str] = {
    "decline": "negates the requested action in words",
    "no": "is a bare no, where it stands alone",
    "distance": "takes distance from the request without negating the action",
    "regret": "says that it is sorry",
    "soften": "softens the force of the refusal itself",
    "acknowledge": "acknowledges the ask or the asker's goal",
    "care": "cares for the asker's feelings or safety",
    "blame": "calls the act, the intent or its effect wrong, harmful or unlawful",
    "concern": "gives a reason that lies in the request, without calling it wrong",
    "rule": "puts the boundary on its own rules, design or purpose",
    "barred": "says that it may not, and not by whose rule",
    "content": "names a kind of content that it keeps out of",
    "unable": "claims a lack of ability, access, knowledge or authority",
    "role": "invokes being an AI, its role, purpose or rules",
    "principle": "states a moral norm that would stand without this request",
    "turn": "turns to something else: what follows is a clause of its own",
    "instead": "puts something in the place of the request, likewise",
    "condition": "supposes something of the asker, up to the next comma",
    "offer": "offers another topic, channel or help, not carried out yet",
    "suggest": "steers the asker's next steps",
    "deliver": "announces a substitute that is carried out here",
    "give": "gives something where a list follows, else offers it",
    "praise": "puts a value on what it names",
}
#: Where the phrases of an act may stand: at the start of a sentence, or anywhere.
WHERE = ("start", "anywhere")


@dataclass(frozen=True, slots=True)
class Act:
    """Phrases of one language that show an act. `unless` are patterns that void a hit in the same sentence; `where` is
    one of `WHERE`."""

    id: str
    name: str
    phrases: tuple[Pattern, ...]
    unless: tuple[Pattern, ...]
    why: str
    yes: tuple[str, ...]
    no: tuple[str, ...]
    language: str
    file: str
    where: str = "anywhere"
