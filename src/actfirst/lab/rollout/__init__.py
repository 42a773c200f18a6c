"""The paper's rollout efficiency experiment: virtual turns from fixed contexts (appendix "Rollout Efficiency")."""
