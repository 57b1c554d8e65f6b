"""A tokenizer of single characters, with a chat template in the manner of ChatML."""

from collections.abc import Sequence
from typing import Any

OPEN, CLOSE = "⟨", "⟩"


class CharacterTokenizer:
    """Every character is a token, its code point the id; `⟩` closes a message."""

    eos_token_id: int | None = ord(CLOSE)
    pad_token_id: int | None = None

    def apply_chat_template(self, conversation: list[dict[str, str]], **options: Any) -> str:
        text = "".join(f"{OPEN}{m['role'][0]}:{m['content']}{CLOSE}\n" for m in conversation)
        return text + (f"{OPEN}a:" if options.get("add_generation_prompt") else "")

    def encode(self, text: str, **options: Any) -> list[int]:
        return [ord(character) for character in text]

    def decode(self, token_ids: Sequence[int], **options: Any) -> str:
        return "".join(map(chr, token_ids))
