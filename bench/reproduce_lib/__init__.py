"""The parts of bench/reproduce: one module for each concern, Python's standard library alone."""
