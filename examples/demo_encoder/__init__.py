"""How the bundled encoder is made: recipes of its scenes, its architecture, its training, and the program of all."""
