"""ALFWorld without TextWorld: game files, a native engine and a world over a folder of games."""
