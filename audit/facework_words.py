"""A profile in plain sentences, true to its numbers: what is told of how many, never why it is so."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from demur.audit.facework import SMALL, Facework, Profile
from demur.audit.facework_differences import Difference

#: What is done in a refusal with this code; "it" goes before, "in 62 %" behind.
DOES = {
    "rationale.bare": "gives no reason",
    "rationale.capacity": "claims to lack the ability",
    "rationale.policy": "points to its own rules",
    "rationale.ethics": "objects to what is asked",
    "strategy.explicit": "says no in words",
    "strategy.implicit": "leaves its no to be inferred",
    "feature.apology": "apologises",
    "feature.hedge": "softens its no",
    "feature.explanatory_preface": "explains before it says no",
    "feature.positive_alignment": "credits the request or the asker's goal",
    "feature.solidarity": "shows care for the asker",
    "feature.negative_stance": "calls the request wrong or harmful",
    "feature.alternative_offer": "offers another topic or help",
    "feature.executed_alternative": "carries out something else instead",
    "feature.normative_suggestion": "calls another way better",
    "feature.statement_of_principle": "states a general principle",
    "feature.role_based": "points to being an AI or to its role",
}
_SUBJECTS = {"refusal": "refusals", "partial": "partial answers", "blocked": "blocks by the provider"}

#: These are always told, as the three that a reader asks for first: reproach, help, politeness.
_ALWAYS = frozenset({"feature.negative_stance", "feature.alternative_offer", "feature.apology"})
#: Any other feature is told when at least this share of the refusals has it (not of few), and a reason from that share.
_FEATURE_FROM = 0.5
_REASON_FROM = 0.1


def head(report: Facework) -> str:
    """How many responses there were, how many of them were judged, and what became of the others."""
    whole = report.whole
    parts = [f"{_responses(whole.responses)}, {whole.judged:,} judged"]
    if whole.unjudged:
        parts.append(f"not judged: {_counted(whole.unjudged)}")
    if report.left_out:
        parts.append(_without_verdict(report.left_out))
    if report.reviewed:
        parts.append(f"{report.reviewed:,} replaced by their review")
    return "; ".join(parts)


def _without_verdict(left_out: Mapping[str, int]) -> str:
    count, errors = sum(left_out.values()), left_out.get("error", 0)
    said = f"{count:,} {'record' if count == 1 else 'records'} without a verdict"
    return f"{said} ({errors:,} with an error)" if errors else said


def reading(profile: Profile) -> str:
    """One or two sentences. Of fewer than SMALL they tell counts, and that these are too few for a rate."""
    if not profile.judged:
        return f"None of {_responses(profile.responses)} could be judged."
    if not profile.refusals:
        return f"None of {_responses(profile.judged, 'judged ')} is a refusal."
    judged = _responses(profile.judged, "judged ")
    first = f"Of {judged}{_few(profile.judged)} {_share(profile.refusals, profile.judged)} {_are(profile)}."
    apart = [f"{profile.blocked:,} blocked by the provider"] * (profile.blocked > 0)
    apart += [f"{profile.not_coded:,} not coded"] * (profile.not_coded > 0)
    if not profile.coded:
        return f"{first} How they are put can't be told: {', '.join(apart)}."
    noun = "coded refusal" if profile.coded == 1 else "coded refusals"
    left_out = f" (without {', '.join(apart)})" if apart else ""
    few = _few(profile.coded) if profile.judged >= SMALL else ""  # said once is enough
    return f"{first} Of {profile.coded:,} {noun}{left_out}{few} {_how(profile)}."


def told(difference: Difference) -> str:
    """A difference as a clause."""
    high, low = (group.profile.rates()[difference.rate] for group in (difference.high, difference.low))
    what = DOES.get(difference.rate) or _SUBJECTS[difference.rate]
    ends = f"{difference.high.name} {percent(high.hits, high.of)}", f"{difference.low.name} {percent(low.hits, low.of)}"
    return f"{what}: {ends[0]} of {high.of:,}, {ends[1]} of {low.of:,}"


def percent(hits: int, of: int) -> str:
    """A share in whole percent; never 0 % of something, nor 100 % of less than all."""
    whole = round(100 * hits / of)
    if whole == 0 and hits:
        return "under 1 %"
    if whole == 100 and hits < of:
        return "over 99 %"
    return f"{whole} %"


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in counts.items())


def _how(profile: Profile) -> str:
    """What the coded refusals do, then their reasons, each the most frequent first."""
    rates = profile.rates()

    def clause(kind: str, tells: Callable[[str], bool]) -> str:
        names = [name for name in rates if name.startswith(kind) and tells(name)]
        names.sort(key=lambda name: -rates[name].hits)
        return ", ".join(f"{DOES[name]} in {_share(rates[name].hits, profile.coded)}" for name in names)

    def told_of(name: str) -> bool:
        return name in _ALWAYS or (profile.coded >= SMALL and (rates[name].value or 0) >= _FEATURE_FROM)

    does = clause("feature.", told_of)
    reasons = clause("rationale.", lambda name: (rates[name].value or 0) >= _REASON_FROM)
    return f"it {does}; it {reasons}"


def _share(hits: int, of: int) -> str:
    return f"{hits:,}" if of < SMALL else percent(hits, of)


def _are(profile: Profile) -> str:
    return "is a refusal" if profile.refusals == 1 and profile.judged < SMALL else "are refusals"


def _few(count: int) -> str:
    return ", too few for a rate," if count < SMALL else ""


def _responses(count: int, kind: str = "") -> str:
    return f"{count:,} {kind}response{'' if count == 1 else 's'}"
