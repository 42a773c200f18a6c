"""What works on this machine, and how to mend what does not."""

from actfirst.doctor import default, environments, extras, machine
from actfirst.doctor.findings import Check, Finding, State, examine

__all__ = ["Check", "Finding", "State", "default", "environments", "examine", "extras", "machine"]
