"""Agents answer prompts: models behind an SDK, programs, recordings; `skillcomp.live` has all."""
