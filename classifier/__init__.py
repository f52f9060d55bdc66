"""A trace goes in, a verdict comes out: did the model answer, and if not, how did it decline?

The flow, one file a step:

    shapes, request, bodies, answer, sse     any saved object, response body or stream  →  Trace (ask and choices)
    fold, matcher                            a choice's text, in any pieces  →  hits of lexicon phrases, one automaton
    grammar, lexicon, lexicons/*.toml        the phrases: rules are data, each with examples that are held to
    voice, wanted, delivery                  whose words are these; what the ask wants; whether it is there
    signals                                  hits  →  findings: named evidence with spans, counted or not, and why
    features, decide, weights                findings  →  label and confidence; the decision table stands in `decide`
    session, judge                           one choice piece by piece; whole traces; several choices
    stream                                   events → sessions → verdict, for files and for the wire
    explain                                  every rule that hit, and why it counted or not

    >>> from demur.classifier import classify
    >>> classify("I can't help with that.").label
    'hard_refusal'

Offline and deterministic: nothing here opens a connection or knows an HTTP server, a client or a telemetry library.
"""

from demur.classifier.explain import Explanation
from demur.classifier.judge import Classifier, TieBreaker, classify, combine, default_classifier, explain
from demur.classifier.lexicon import LexiconError
from demur.classifier.session import Session
from demur.classifier.shapes import normalize
from demur.classifier.stream import StreamJudge
from demur.classifier.trace import Ask, Choice, Trace
from demur.classifier.verdict import Signal, Span, Verdict

__all__ = [
    "Ask",
    "Choice",
    "Classifier",
    "Explanation",
    "LexiconError",
    "Session",
    "Signal",
    "Span",
    "StreamJudge",
    "TieBreaker",
    "Trace",
    "Verdict",
    "classify",
    "combine",
    "default_classifier",
    "explain",
    "normalize",
]
