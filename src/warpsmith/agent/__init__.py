"""The policy that a language model plays: its tools and what they work on."""
