"""Trace in, verdict out: did the model answer, and if not, how did it decline?"""

from demur.classifier.judge import Classifier, classify, combine, default_classifier
from demur.classifier.session import Session
from demur.classifier.shapes import normalize
from demur.classifier.stream import StreamJudge
from demur.classifier.trace import Ask, Choice, Trace
from demur.classifier.verdict import Verdict

__all__ = [
    "Ask",
    "Choice",
    "Classifier",
    "Session",
    "StreamJudge",
    "Trace",
    "Verdict",
    "classify",
    "combine",
    "default_classifier",
    "normalize",
]
