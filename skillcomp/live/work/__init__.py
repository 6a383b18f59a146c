"""The work of a study: one engine for answers and gradings, and what it leaves in the store."""
