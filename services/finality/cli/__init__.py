"""Words for people and scripts. One process per command; nothing is decided here."""
