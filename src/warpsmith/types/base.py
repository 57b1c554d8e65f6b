"""The base of every record."""

import hashlib
import json

from pydantic import BaseModel, ConfigDict


def sha256_hex(data: str | bytes) -> str:
    """Hex SHA-256 of text (as UTF-8) or bytes."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


class Record(BaseModel):
    """A frozen record: unknown keys are refused, and equal content has an equal hash."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    def canonical_json(self) -> str:
        """JSON with sorted keys and no spaces: what the content hash is taken over."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))

    @property
    def content_hash(self) -> str:
        """Hex SHA-256 of `canonical_json()`."""
        return sha256_hex(self.canonical_json())
