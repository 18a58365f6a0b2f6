"""`python -m tellapart`: the command line."""

from tellapart.cli import main

main()
