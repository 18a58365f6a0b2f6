"""The tests here share `golden.py`, and torch as the package imports it."""

from tellapart.errors import import_torch

import_torch()
