"""Where the parts of a tree no longer fit together."""
