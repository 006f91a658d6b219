"""The coverage matrix: what each row may claim, computed from the required cases, the ledger and the files. Nothing is typed."""
