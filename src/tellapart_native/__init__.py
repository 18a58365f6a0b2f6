"""Models as their authors released them: file, graph, preprocessing and heads of each family."""
