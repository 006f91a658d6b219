"""The comparison ladder: each rung cheaper than the next, each naming a culprit for it."""
