"""Quadruples of rendered scenes after EqBen's Figure 14, each verified by the renderer's own object masks."""
