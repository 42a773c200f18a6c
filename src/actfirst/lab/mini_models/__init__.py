"""How the small models for the real ALFWorld games are made and measured (`actfirst mini`).

They know ALFWorld's household tasks in ALFWorld's own houses and nothing else.
"""
