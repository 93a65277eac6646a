"""The HTTP API: request and response models, and the services behind the routes."""
