"""Agents, which answer prompts; `skillcomp.live` exports all their public names."""
