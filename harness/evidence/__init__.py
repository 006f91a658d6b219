"""Evidence: what ran, what it showed, and what the coverage matrix may claim from it."""
