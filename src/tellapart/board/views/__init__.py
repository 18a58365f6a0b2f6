"""Pages without HTML: from rows of the database to one pydantic view for each kind of page."""
