"""The pocket models: a tiny teacher and a weaker student of one tokenizer, and how they are made from nothing.

    tokenizer -> demonstrations -> build      words, training pairs, training and evaluation
    teacher/ student/                         the checkpoints that ship with the package
    build_result.json                         the recorded result of the build that made them

`actfirst pocket build` makes them again. They know ALFWorld's household tasks in pocket houses and nothing else.
"""
