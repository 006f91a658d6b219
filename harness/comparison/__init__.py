"""Two arrays, one bound, one verdict: the only place where a result is called right or wrong."""
