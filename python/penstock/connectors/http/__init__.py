"""Requests to servers of HTTP: a source of pages, and a sink."""
