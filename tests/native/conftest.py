"""The tests here share `golden.py`."""
