"""How long does it take, beside what? Brackets, the clock, stability, baselines, ratios."""
