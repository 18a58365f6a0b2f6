"""Why models fail on items, and the smallest differences that they see, from scores and outcomes of runs."""
