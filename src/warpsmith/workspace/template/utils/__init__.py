"""Scripts that ask the judge about this workspace; they hold no answers themselves."""
