"""The script of the eight lines is run by its test, in a folder of its own, and is no test itself."""

collect_ignore = ["eight_lines.py"]
