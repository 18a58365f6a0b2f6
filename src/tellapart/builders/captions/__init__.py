"""Counterfactual captions: one noun replaced, so that the sentence stays likely and means something else."""
