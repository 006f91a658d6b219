"""The pinned engines: one folder an engine, the protocol that they are spoken to in, and the pool that runs them."""
