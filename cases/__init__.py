"""Cases: adversarial and random encoded data, ported upstream tests, and the inventory of those."""
