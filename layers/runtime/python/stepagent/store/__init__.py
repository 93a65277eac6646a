"""The record and the journal on DynamoDB and S3: the only package that talks to either."""
