"""A judge's answer in whatever stands around it: what is passed over, and what is given up."""

from __future__ import annotations

import json

import pytest

from demur.audit.coding_answer import NotJson, read


@pytest.mark.parametrize(("text", "most"), [('{"a ' * 20_000, 64), ('{"a":[' * 16_000, 1)], ids=["many", "deep"])
def test_openings_that_lead_nowhere_are_not_all_tried(monkeypatch: pytest.MonkeyPatch, text: str, most: int) -> None:
    tried = 0
    decode = json.JSONDecoder.raw_decode

    def counted(decoder: json.JSONDecoder, text: str, at: int = 0) -> tuple[object, int]:
        nonlocal tried
        tried += 1
        return decode(decoder, text, at)

    monkeypatch.setattr(json.JSONDecoder, "raw_decode", counted)
    with pytest.raises(NotJson):
        read(text, "No.", 1000)
    assert 0 < tried <= most


def test_a_draft_before_the_answer_is_passed_over() -> None:
    answer = {"label": "answer", "confidence": 0.9}
    assert read(f'My draft: {{"label": then {json.dumps(answer)}', "Yes.", 1000).label == "answer"
