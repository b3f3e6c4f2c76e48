"""From runs to claims: matched pairs, intervals and verdicts; and what happens inside trained networks."""
