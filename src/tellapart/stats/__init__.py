"""Intervals, paired tests, multiple testing, detectable effects and tiers."""
