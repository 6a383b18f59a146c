"""Live studies: agents that answer, graders that judge, and the runner between them and a store."""

__all__: list[str] = []


def __dir__() -> list[str]:
    return list(__all__)
