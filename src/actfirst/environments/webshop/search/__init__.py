"""Full-text search over products, ranked as Lucene 8 ranks: tokenizer, stemmer, analyzer, BM25, index on disk."""
