"""What a run says: the JSON contract, the table on the terminal, the HTML page."""
