"""How much PHI a release still holds: a random sample, two blind readers, upper bounds, a certified threshold."""
