"""The Python interface: everything that the command line does, as functions; the commands call these and print."""
