"""tellapart: can a vision-language model tell two almost identical image-text pairs apart?"""

__version__ = "0.1.0"
