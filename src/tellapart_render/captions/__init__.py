"""The words of captions: templates, names of objects, other words for the same."""
