"""How the bundled dual encoder was trained: `python -m training.demo_dual_encoder --help`."""
