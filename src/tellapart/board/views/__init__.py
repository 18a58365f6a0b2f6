"""What each page shows: rows of the database in, one pydantic view out; no HTML and no request here."""
