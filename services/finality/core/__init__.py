"""Decides, never waits: pure functions and frozen values, no I/O, no clock, no chance, no environment."""
