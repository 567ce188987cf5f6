"""The pieces that :mod:`bollhav_provider.dag_factory` puts together."""
