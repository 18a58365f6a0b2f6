"""The board: records of many models in one database, as pages, JSON, tables and a static site."""
