"""Findings: the pages of docs/findings, each made by one command from published data."""
