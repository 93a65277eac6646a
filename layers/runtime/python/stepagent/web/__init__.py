"""Requests to servers of others, which nobody can turn against the account that sends them.

`client.send` is the only way out. Whatever a model, a caller or a server's redirect names, a request goes only to hosts
that the deployment allows (`permission`), written in one plain form (`urls`), at public addresses (`addresses`), over a
connection to the very address that was checked (`network`), within a total time and a number of bytes (`client`).
"""
