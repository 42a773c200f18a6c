"""Rules and prompts for any world: what adapters and new environments begin with."""
