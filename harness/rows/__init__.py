"""The coverage rows: which leaves the matrix has, and what each of them must show. Data under `data/`, read by `load`."""
