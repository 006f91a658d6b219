"""Cases for the encodings of GGUF files."""
