"""A board of 202 published checkpoints, from the results of vl_compo that the user downloads."""
