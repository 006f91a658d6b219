"""The side under test: our own kernels, somebody else's Python, or a provider that plays the subject's role."""
