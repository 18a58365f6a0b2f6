"""Scenes as plain numbers: drawn in quadruples, and captioned."""
