"""The upstream projects' own tests as data: what they check, with which bounds, and what became of each with us."""
