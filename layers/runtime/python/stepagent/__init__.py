"""StepAgent: a serverless runtime for LLM agents on AWS."""
