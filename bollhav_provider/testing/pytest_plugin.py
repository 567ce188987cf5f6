"""Fixtures for people who test their models."""
