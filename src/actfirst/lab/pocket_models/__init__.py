"""How the tiny models that ship with the package are made and measured (`actfirst pocket`).

They know ALFWorld's household tasks in pocket houses and nothing else.
"""
