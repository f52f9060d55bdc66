"""`/-/verdicts/{id}`: what is answered when somebody asks for a verdict by its id."""

from __future__ import annotations

import msgspec

from demur.proxy.store import PENDING, VerdictStore

PREFIX = "/-/verdicts/"


def look_up(store: VerdictStore, id: str, *, text: bool) -> tuple[int, bytes] | None:
    """Status and JSON: 200 and the verdict, or 202 while it is pending; None when nothing is known under `id`.

    `text`: whether the evidence comes with its words.
    """
    found = store.get(id)
    if found is None:
        return None
    if found is PENDING:
        return 202, msgspec.json.encode({"id": id, "status": "pending"})
    return 200, msgspec.json.encode(found.to_dict(text=text))


def not_found(id: str) -> bytes:
    """The JSON that is then sent with 404, in the shape that OpenAI's clients read."""
    message = f"demur: there is no verdict under this id, or no longer: {id[:64]}"
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": "not_found"}
    return msgspec.json.encode({"error": error})
