"""CUDA sources that encodings share, and how they are built."""
