"""Builders that draw pictures: rendered scenes after EqBen's Figure 14, and diffusion for pairs of captions."""
