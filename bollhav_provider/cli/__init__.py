"""The ``bollhav`` command: the same library, state and models, without Airflow."""
