"""Models as their authors released them: each family's own file, graph, preprocessing and heads."""
