"""Why models fail on items, the smallest differences that they see, and the step at which two of them part."""
