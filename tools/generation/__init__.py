"""The parts of tools/generate.py."""
