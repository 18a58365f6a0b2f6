"""Tables in the papers' layouts: LaTeX, Markdown, CSV."""
