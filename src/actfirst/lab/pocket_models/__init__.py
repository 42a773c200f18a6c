"""The tiny models that ship with the package, and how such models are made.

    teacher/, student/    Hugging Face checkpoint folders with one tokenizer: an early pair
    build.py              `actfirst pocket build`: tokenizer, demonstrations, training, measurement

They know ALFWorld's household tasks in pocket houses and nothing else.
"""
