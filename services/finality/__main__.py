"""`python -m finality`."""

from finality.cli.main import run

run()
