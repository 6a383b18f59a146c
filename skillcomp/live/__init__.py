"""Live studies: agents that answer, graders that judge, and the runner between them and a store."""
