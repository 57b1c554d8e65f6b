"""Honest input, damaged: bytes that are cut, flipped, doubled; JSON with a part that is not what it should be."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-4, 4),
    st.sampled_from([2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**400]),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["", "float32", "passed", "../..", "/etc/passwd", "\ud800", "\0", "x" * 5000, "0x1p+4000"]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
"""What JSON can hold, and a little more."""
LONG = (b"9" * 5000, b"-1e999", b"NaN")
"""Numbers that not every reader of JSON takes."""
DEEP = b"[" * 5000


@dataclass(frozen=True)
class Change:
    """One change of a JSON value. `where` chooses the place: 0 is the first of all, 1 the last."""

    kind: str
    where: float
    value: Any

    def of(self, root: Any) -> Any:
        """`root` changed; it is left as it was."""
        root = json.loads(json.dumps(root))
        places = _places(root)
        if not places:
            return self.value
        holder, key = places[min(int(self.where * len(places)), len(places) - 1)]
        if self.kind == "remove":
            del holder[key]
        elif self.kind == "add":
            if isinstance(holder, list):
                holder.insert(key, self.value)
            else:
                holder["extra"] = self.value
        elif self.kind == "swap":
            other, place = places[len(places) - 1 - min(int(self.where * len(places)), len(places) - 1)]
            holder[key] = json.loads(json.dumps(other[place]))
        elif self.kind == "nudge" and type(holder[key]) is int:
            holder[key] += 1 if self.where < 0.5 else -1
        else:
            holder[key] = self.value
        return root


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a value: what holds it, and the key."""
    pairs = list(enumerate(value)) if isinstance(value, list) else []
    pairs = list(value.items()) if isinstance(value, dict) else pairs
    return [(value, key) for key, _ in pairs] + [place for _, inner in pairs for place in _places(inner)]


CHANGES = st.builds(
    Change, st.sampled_from(["replace", "remove", "add", "swap", "nudge"]), st.floats(0, 1), VALUES
)


@st.composite
def damaged(draw: st.DrawFn, seeds: Sequence[bytes], most: int = 4) -> bytes:
    """One of `seeds`, changed in up to `most` places."""
    data = draw(st.sampled_from(list(seeds)))
    for _ in range(draw(st.integers(0, most))):
        at = draw(st.integers(0, max(0, len(data))))
        length = draw(st.integers(0, 40))
        kind = draw(st.sampled_from(["cut", "flip", "insert", "double", "take out", "end"]))
        if kind == "cut":
            data = data[:at]
        elif kind == "flip" and at < len(data):
            data = data[:at] + bytes([data[at] ^ (1 << draw(st.integers(0, 7)))]) + data[at + 1 :]
        elif kind == "insert":
            data = data[:at] + draw(st.binary(max_size=20) | st.sampled_from(LONG)) + data[at:]
        elif kind == "double":
            data = data[: at + length] + data[at:]
        elif kind == "take out":
            data = data[:at] + data[at + length :]
        else:
            data += draw(st.sampled_from([b"\n", b"\0" * 64, b"{", b"\xff", b"[" * 3000]))
    return data


@st.composite
def misshapen(draw: st.DrawFn, seeds: Sequence[Any], most: int = 3) -> bytes:
    """One of the JSON values `seeds` with up to `most` parts changed, as bytes."""
    value = draw(st.sampled_from(list(seeds)))
    for _ in range(draw(st.integers(0, most))):
        value = draw(CHANGES).of(value)
    return json.dumps(value).encode()


def foreign(values: Sequence[Any]) -> st.SearchStrategy[bytes]:
    """Bytes for a reader of JSON: such values as they should be, misshapen, damaged, and anything at all."""
    texts = [json.dumps(value).encode() for value in values]
    return st.one_of(misshapen(values), damaged(texts), st.binary(max_size=64), st.just(DEEP))


def texts(seeds: Sequence[str]) -> st.SearchStrategy[str]:
    """Text for a reader of what a tool printed."""
    return st.one_of(damaged([s.encode() for s in seeds]), st.binary(max_size=200)).map(
        lambda data: data.decode(errors="replace")
    )
