"""ScienceWorld 1.2.3: the real simulator, behind the environment protocol."""
