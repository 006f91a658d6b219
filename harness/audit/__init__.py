"""The audit of the suite: what is skipped, why, for which row, whether it still has to be, and what hides a failure."""
