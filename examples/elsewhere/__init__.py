"""From other tools: bundles of CodaLab competitions, and samples of lmms-eval."""
