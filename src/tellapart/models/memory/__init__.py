"""Models that a user holds already: functions and objects of Python, and files of scores."""
