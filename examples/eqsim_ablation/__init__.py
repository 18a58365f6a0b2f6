"""The loss ablation of EqSim's Table 6 in miniature, on rendered scenes."""
