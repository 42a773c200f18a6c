"""How small models for the real benchmarks are made (`actfirst mini`).

They know one world and nothing else: what the world's kind says of it (demonstrator, novice, lexicon), and its texts.
"""
