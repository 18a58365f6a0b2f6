"""Counterfactual captions: one noun of a caption replaced, so that the sentence stays likely and means something else."""
