"""`python -m tellapart`: the command line."""

from tellapart.cli.main import main

main()
