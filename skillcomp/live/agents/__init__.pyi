from .agent import Agent as Agent
from .agent import Cell as Cell
from .agent import Reply as Reply
from .agent import family_of as family_of
from .anthropic import AnthropicAgent as AnthropicAgent
from .cli import CliAgent as CliAgent
from .openai import OpenAIAgent as OpenAIAgent
from .replay import ReplayAgent as ReplayAgent
